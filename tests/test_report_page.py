"""The page in a real browser: Debian's chromium, without a window, at the width of a phone and of a desk."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest
from report_tools import PAPER_ERRORS, fast_run, paper_runs, write_folder

from fdglm_fast.report.write import write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
QUIET = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--enable-logging=stderr",
]
PATIENCE = 180.0
WIDTHS = pytest.mark.parametrize("width", [390, 1280])

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (apt-get install chromium)")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    errors = {graph: {m: values[m] for m in (32, 64)} for graph, values in PAPER_ERRORS.items()}
    others = [fast_run(graph, m, -8.7) for graph in ("complete", "star", "rgg") for m in (32, 64)]
    write_folder(folder / "runs", [*paper_runs(errors, seeds=(0, 1)), *others])
    write_report(str(folder / "runs"), str(folder / "page.html"))
    return folder / "page.html"


def browse(page: Path, folder: Path, *options: str) -> tuple[str, str]:
    """What the browser prints for a page, and what it complains about on its console or cannot load."""
    command = [str(CHROMIUM), *QUIET, f"--user-data-dir={folder / 'profile'}", *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line or "net::ERR" in line]
    return done.stdout, "\n".join(complaints)


def pixels(path: Path) -> tuple[int, int, list[bytes]]:
    """Width, height and rows of an 8-bit PNG; rows without a change from the one above are what we look for."""
    data = path.read_bytes()
    width, height, depth, colour = struct.unpack(">IIBB", data[16:26])
    assert depth == 8
    channels = {2: 3, 6: 4}[colour]
    packed = b"".join(
        data[start + 8 : start + 8 + struct.unpack(">I", data[start : start + 4])[0]]
        for start in (match.start() - 4 for match in re.finditer(b"IDAT", data))
    )
    stride = width * channels + 1
    raw = zlib.decompress(packed)
    return width, height, [raw[k * stride : (k + 1) * stride] for k in range(height)]


def test_a_broken_page_is_noticed(tmp_path: Path) -> None:
    """That the test below can fail: errors of a script and missing files are on the console."""
    bad = tmp_path / "bad.html"
    bad.write_text('<!DOCTYPE html><title>x</title><img src="missing.png"><script>nothing.here()</script>')
    _, complaints = browse(bad, tmp_path, "--dump-dom")
    assert "nothing is not defined" in complaints


@WIDTHS
def test_the_page_opens_without_errors(page: Path, tmp_path: Path, width: int) -> None:
    screen = tmp_path / "screen.png"
    options = (f"--window-size={width},2400", f"--screenshot={screen}")
    _, complaints = browse(page, tmp_path, *options)
    assert complaints == ""
    found_width, _, rows = pixels(screen)
    assert found_width == width
    # A page that failed to draw is one colour from top to bottom: count the rows that differ from their neighbour.
    assert len(set(rows)) > 300


@WIDTHS
def test_nothing_is_wider_than_the_screen(page: Path, tmp_path: Path, width: int) -> None:
    """Tables scroll in their boxes; the page itself must not. A script measures a copy of the page."""
    probe = (
        "<script>addEventListener('load',()=>{const e=document.documentElement;"
        "document.title=`${e.scrollWidth}/${e.clientWidth}/${document.querySelectorAll('svg text').length}`})</script>"
    )
    copy = tmp_path / "copy.html"
    copy.write_text(page.read_text(encoding="utf-8").replace("</body>", f"{probe}</body>"), encoding="utf-8")
    frame = tmp_path / "frame.html"  # a window has a least width, a frame has none
    frame.write_text(
        f'<!DOCTYPE html><iframe src="copy.html" width="{width}" height="800" style="border:0"></iframe><script>'
        "addEventListener('load',()=>setTimeout(()=>{document.title=document.querySelector('iframe').contentDocument.title},"
        "200))</script>",
        encoding="utf-8",
    )
    flags = ("--allow-file-access-from-files", "--virtual-time-budget=3000", f"--window-size={width + 40},900")
    dom, complaints = browse(frame, tmp_path, *flags, "--dump-dom")
    match = re.search(r"<title>(\d+)/(\d+)/(\d+)</title>", dom)
    assert match and complaints == "", (dom[:500], complaints)
    wide, seen, texts = (int(group) for group in match.groups())
    assert seen == width and wide <= seen and texts > 500


def test_dark_and_light(page: Path, tmp_path: Path) -> None:
    corner = {}
    for name, scheme in (("dark", 0), ("light", 1)):
        screen = tmp_path / f"{name}.png"
        browse(page, tmp_path, "--window-size=600,300", f"--blink-settings=preferredColorScheme={scheme}",
               f"--screenshot={screen}")  # fmt: skip
        corner[name] = pixels(screen)[2][0][1:4]  # the first row of a PNG is stored as it is, or as differences
    assert corner["light"] == b"\xff\xff\xff" and max(corner["dark"]) < 0x40


def test_it_prints(page: Path, tmp_path: Path) -> None:
    target = tmp_path / "print.pdf"
    browse(page, tmp_path, "--no-pdf-header-footer", f"--print-to-pdf={target}")
    content = target.read_bytes()
    assert content.startswith(b"%PDF") and len(content) > 100_000
