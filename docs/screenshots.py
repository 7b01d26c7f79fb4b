"""The pictures of the documentation, docs/images: what `make screenshots` takes, in a real browser, of real pages.

Each shows kept figures at a fixed moment in a window of one size, so that it changes only with what it shows, but for a
shade here and there.
"""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.pages.browser.driver import Browser, Page, missing

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
RECORD, REAL = "benchmarks/all_reduce_algorithms.json", "benchmarks/double_tree_2_ranks.json.gz"
HIDDEN = (
    "hierarchical", "bine_tree", "binary_tree", "circulant", "torus", "torus_3d", "locality_tree", "split_tree",
    "parameter_server",
)  # fmt: skip
"""Lines that would only crowd the picture of the record."""
MOST_NBYTES = 200_000
DARK_CHINESE = {"locale": "zh-CN", "colorScheme": "dark"}
TERMINAL = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; padding: 1rem 1.4rem; width: max-content; background: #14171c; color: #e8ebf0; }}
pre {{ margin: 0; font: 15px/1.32 "DejaVu Sans Mono", monospace; }}</style><pre>{code}</pre>"""


def ringtree(*words: str) -> list[str]:
    return [sys.executable, "-m", "ringtree.cli", *words]


class Studio:
    """Where the pages lie that are taken, and the browser that shows them."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self._browser, self._folder = browser, folder

    def page(self, height: int, *command: str, **options: Any) -> Any:
        """The page that a command of ringtree's writes, in a window of that height."""
        path = self._folder / "page.html"
        subprocess.run(ringtree(*command, "--html", str(path)), cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        return self._browser.open(path, viewport={"width": 1280, "height": height}, **options)

    def terminal(self, name: str, *command: str) -> None:
        """What a command prints where a person looks on, in colour."""
        path = self._folder / "terminal.html"
        screen = Console(record=True, width=110, file=StringIO())
        screen.print(Text(f"$ ringtree {' '.join(command)}", style="bold"))
        screen.print(Text.from_ansi(on_a_terminal(ringtree(*command))))
        html = screen.export_html(theme=MONOKAI, inline_styles=True, code_format=TERMINAL)
        path.write_text(html, encoding="utf-8")
        with self._browser.open(path, viewport={"width": 1280, "height": 1600}) as page:
            page.screenshot(IMAGES / f"{name}.png")


def on_a_terminal(command: list[str]) -> str:
    """What a command prints when its standard output is a terminal of 110 columns."""
    ours, theirs = pty.openpty()
    env = os.environ | {"COLUMNS": "110", "LINES": "60", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    child = subprocess.Popen(command, cwd=ROOT, stdout=theirs, env=env)
    os.close(theirs)
    printed = b""
    try:
        while part := os.read(ours, 65536):
            printed += part
    except OSError:  # Linux's error where the other end is closed
        pass
    child.wait()
    return printed.decode("utf-8").replace("\r\n", "\n").rstrip()


def at_round(page: Page, position: float) -> None:
    """The moment `position` rounds after the start."""
    page.run(
        f"(s => {{ s.value = {position}; s.dispatchEvent(new Event('input')); }})(document.querySelector('#scrub'))"
    )


def take(studio: Studio, folder: Path) -> None:
    with studio.page(700, "show", "ring", "-n", "8", "--collective", "all_reduce") as page:
        at_round(page, 9.45)
        page.screenshot(IMAGES / "ring.png")
    with studio.page(700, "show", "double_tree", "-n", "16", **DARK_CHINESE) as page:
        at_round(page, 2.5)
        page.screenshot(IMAGES / "double_tree.png")
    simulated = str(folder / "simulated.json.gz")
    words = ("simulate", "double_tree", "-n", "2", "--collective", "all_reduce", "--bytes", "1M", "--cut")
    played = ringtree(*words, "--topology", f"trace:{REAL}", "--trace", simulated)
    subprocess.run(played, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    with studio.page(720, "compare-trace", REAL, simulated) as page:
        page.screenshot(IMAGES / "traces.png")
    with studio.page(780, "report", RECORD) as page:
        for line in HIDDEN:
            page.click(f'.report-legend [data-line="{line}"]')
        page.call("mouse.move", 0, 0)
        page.press("ArrowLeft")  # 2 ranks
        page.screenshot(IMAGES / "report.png")
    with studio.page(900, "topo", "show", "dgx-1-v100") as page:
        page.press("r")  # the first ring
        page.screenshot(IMAGES / "machine.png")
    studio.terminal("terminal", "show", "ring", "-n", "4", "--collective", "all_reduce")


def main() -> None:
    if lacking := missing():
        raise SystemExit(f"screenshots: {lacking}")
    IMAGES.mkdir(exist_ok=True)
    browser = Browser()
    with TemporaryDirectory() as folder:
        take(Studio(browser, Path(folder)), Path(folder))
    browser.close()
    for image in sorted(IMAGES.glob("*.png")):
        if image.stat().st_size > MOST_NBYTES:
            raise SystemExit(
                f"{image.relative_to(ROOT)}: {image.stat().st_size:,} bytes; expected {MOST_NBYTES:,} at most"
            )
        sys.stdout.write(f"{image.relative_to(ROOT)}: {image.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main()
