"""What the README promises of the tests: every test that it names exists."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent
README = (TESTS.parent / "README.md").read_text(encoding="utf-8")


def names_in(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_every_test_that_is_named_exists() -> None:
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", README)
    assert len(named) > 30
    missing = [f"{file}::{name}" for file, name in named if name not in names_in(TESTS / file)]
    assert missing == []


def test_every_row_of_the_faults_names_a_test() -> None:
    rows = re.search(r"\| fault \|.*?\n\n", README, re.DOTALL)
    assert rows is not None
    _, _, *faults = rows[0].strip().splitlines()
    assert len(faults) > 20
    for row in faults:
        assert re.search(r"::test_\w+` \|$", row) and len(re.findall(r"(?<!\\)\|", row)) == 6, row


def test_the_python_example_runs() -> None:
    """As it stands, with the names in the order in which it imports them, in a process of its own."""
    example = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert example is not None
    data = "import numpy as np\nX = np.random.default_rng(0).standard_normal((64, 32))\ny = X[:, 0]\n"
    code = data + example[1] + "assert result.iterations == 2000 and result.theta_last.shape == (32,)\n"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
