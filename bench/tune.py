"""The rival at its best: the fastest way of writing each half of its iteration, found by trying them on this machine.

The halves share nothing but lambda, so they are tried one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fdglm_bench.clock import repeated, time_block
from fdglm_bench.data import Data, ordinary_duals
from fdglm_bench.exchange import products_for
from fdglm_bench.numpy_rival import NumpyRival, Variant
from fdglm_bench.passes import Blocks, batches_for, blocks_of, layouts_for
from fdglm_fast.network import Network
from fdglm_fast.steps import StepSizes

CHUNKS = (512, 2048, 8192)  # samples at a time; all of them is tried too


@dataclass(frozen=True, eq=False)
class Tuned:
    """The rival in its fastest variant, and the milliseconds that each half took in every variant tried."""

    rival: NumpyRival
    variant: Variant
    passes_ms: dict[str, float]
    exchange_ms: dict[str, float]


class Tuner:
    """Rivals for one problem on one network."""

    def __init__(self, data: Data, network: Network, steps: StepSizes, tries: int) -> None:
        self._data, self._network, self._steps, self._tries = data, network, steps, tries
        self._offsets = data.problem.with_agents(network.agents).partition.offsets
        self._blocks: tuple[str, Blocks] | None = None

    def rival(self, variant: Variant) -> NumpyRival:
        """A rival at its start."""
        return NumpyRival(
            self._blocks_in(variant.layout), self._data.y, self._offsets, self._network, self._steps, variant
        )

    def tune(self) -> Tuned:
        """Try everything, keep the best."""
        base = Variant()
        exchanges = {f"{p} by {c}": replace(base, product=p, chunk=c) for p, c in self._exchanges()}
        exchange, exchange_ms = self._fastest(exchanges, lambda rival: rival.exchange)
        chosen = exchange or base
        ways = [(layout, batch) for layout in layouts_for(self._offsets) for batch in batches_for(self._offsets)]
        passes = {f"{layout} by {batch}": replace(chosen, layout=layout, batch=batch) for layout, batch in ways}
        best, passes_ms = self._fastest(passes, lambda rival: rival.pass_over_X)
        assert best is not None
        return Tuned(self.rival(best), best, passes_ms, exchange_ms)

    def _exchanges(self) -> list[tuple[str, int]]:
        if self._network.agents == 1:
            return []
        n = self._data.n
        chunks = [*(chunk for chunk in CHUNKS if chunk < n), n]
        return [(product, chunk) for product in products_for(self._network) for chunk in chunks]

    def _fastest(
        self, variants: dict[str, Variant], half: Callable[[NumpyRival], Callable[[], None]]
    ) -> tuple[Variant | None, dict[str, float]]:
        seconds: dict[str, float] = {}
        for name, variant in variants.items():
            work = repeated(half(self._filled(variant)))
            seconds[name] = min(time_block(work, 2) for _ in range(self._tries))
        best = min(seconds, key=lambda name: seconds[name], default=None)
        return (None if best is None else variants[best]), {name: 1e3 * s for name, s in seconds.items()}

    def _filled(self, variant: Variant) -> NumpyRival:
        rival = self.rival(variant)
        rival.lam[:] = ordinary_duals(rival.lam.shape)
        return rival

    def _blocks_in(self, layout: str) -> Blocks:
        if self._blocks is None or self._blocks[0] != layout:
            data = self._data
            self._blocks = None  # not two copies at once
            self._blocks = (layout, blocks_of(data.X, data.columns, self._offsets, layout))
        return self._blocks[1]
