"""Makes data/sample.h5, the small problem of the README: python data/make_sample.py

400 samples of 48 features, the readings of 8 sensors with 6 channels each; squared loss, 12 coefficients that
are not zero, neighbouring features correlated by 0.3.
"""

from __future__ import annotations

from pathlib import Path

import h5py

from fdglm_fast.generate import generate

SENSORS, CHANNELS = 8, 6


def make(path: Path) -> None:
    """Write the sample to `path`, replacing what is there."""
    generate(path, 400, SENSORS * CHANNELS, sparsity=12, correlation=0.3, seed=2021, force=True)
    names = [f"sensor{s}_channel{c}" for s in range(1, SENSORS + 1) for c in range(1, CHANNELS + 1)]
    with h5py.File(path, "r+") as file:
        file.create_dataset("feature_names", data=names, dtype=h5py.string_dtype())


if __name__ == "__main__":
    make(Path(__file__).with_name("sample.h5"))
