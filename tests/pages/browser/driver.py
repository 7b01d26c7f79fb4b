"""A real browser, driven from Python: Debian's chromium under playwright-core, in one Node process (driver.mjs)."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
INSTALLED = ROOT / "build" / "browser"
"""Where `make browser` puts playwright-core."""

OLDEST_NODE = 20
"""That playwright-core runs on."""
COUNT_STROKES = """(() => {
    const canvas = CanvasRenderingContext2D.prototype;
    for (const [name, {value}] of Object.entries(Object.getOwnPropertyDescriptors(canvas))) {
        if (typeof value !== 'function') continue;
        canvas[name] = function (...given) { strokes++; return value.apply(this, given); };
    }
    window.strokes = 0;
    ringtree.stats.frames_ms.length = 0;
})()"""
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def missing() -> str:
    """What a machine lacks to run a browser, and how to get it; empty where nothing is missing."""
    if not _chromium():
        return "no chromium here: apt-get install chromium (and nodejs, npm), then make browser"
    node = shutil.which("node")
    version = subprocess.run([node, "--version"], capture_output=True, text=True).stdout.strip() if node else ""
    if not version or int(version.removeprefix("v").split(".")[0]) < OLDEST_NODE:
        return (
            f"{f'node {version}' if node else 'no node'} here: install node {OLDEST_NODE} or newer, then make browser"
        )
    if not (INSTALLED / "node_modules" / "playwright-core").is_dir():
        return "no playwright-core here: make browser"
    return ""


def _chromium() -> str | None:
    return next(filter(None, map(shutil.which, CHROMIUM)), None)


class Page:
    """A page in the browser. A selector is CSS, or Playwright's own ("text=play")."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser

    def call(self, method: str, *args: Any) -> Any:
        """Any method of Playwright's Page by its name there, or of its keyboard or mouse: "mouse.move"."""
        return self._browser.ask(call=method, **{"with": args})

    def run(self, javascript: str) -> Any:
        """An expression's value; a promise is waited for."""
        return self.call("evaluate", javascript)

    def click(self, selector: str) -> None:
        self.call("click", selector)

    def hover(self, selector: str) -> None:
        self.call("hover", selector)

    def count_strokes(self) -> None:
        """From here on `strokes` counts what is called of canvases, and `ringtree.stats.frames_ms` has the frames."""
        self.run(COUNT_STROKES)

    def press(self, key: str) -> None:
        self.call("keyboard.press", key)

    def wait(self, condition: str) -> None:
        """Until this expression is true; 2000 looks at most. Asked from here: the pages let nobody evaluate strings."""
        for _ in range(2000):
            if self.run(condition):
                return
            time.sleep(0.02)
        raise AssertionError(f"not so in 2000 looks: {condition}")

    def text(self, selector: str) -> str:
        """The visible text of the first that is selected (CSS); in a picture, all of its text."""
        self.call("waitForSelector", selector, {"state": "attached"})
        return str(self.run(f"(e => e.innerText ?? e.textContent)(document.querySelector({json.dumps(selector)}))"))

    def count(self, selector: str) -> int:
        return int(self.run(f"document.querySelectorAll({json.dumps(selector)}).length"))

    def download(self, selector: str) -> tuple[str, bytes]:
        """Clicks it; the name and the contents of the file that it makes."""
        file = self._browser.ask(download=selector)
        return file["name"], base64.b64decode(file["base64"])

    def screenshot(self, path: Path, selector: str = "body") -> None:
        """A PNG of the element, as far as the window shows it."""
        box = f"document.querySelector({json.dumps(selector)}).getBoundingClientRect()"
        clip = self.run(f"(({{x, y, width, height}}) => ({{x, y, width, height}}))({box})")
        self.call("screenshot", {"path": str(path), "clip": clip})


class Browser:
    """One chromium; one page at a time."""

    def __init__(self) -> None:
        command = ["node", str(Path(__file__).with_name("driver.mjs")), str(INSTALLED), str(_chromium())]
        self._node = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.version: str = self._answer()

    def ask(self, **request: Any) -> Any:
        """One request to driver.mjs, which lists the requests."""
        assert self._node.stdin is not None
        self._node.stdin.write(json.dumps(request) + "\n")
        self._node.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._node.stdout is not None
        line = self._node.stdout.readline()
        assert line, "the browser ended; its output is above"
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer["value"]

    @contextmanager
    def open(self, path: Path, **options: Any) -> Iterator[Page]:
        """The page of that file, in English, light and 1280 by 800 unless `options` (Playwright's of a context) set
        others. An error on it, a warning, or a request that leaves this machine fails the test at the end."""
        chosen = {"locale": "en-US", "colorScheme": "light", "viewport": {"width": 1280, "height": 800}} | options
        self.ask(open=path.absolute().as_uri(), options=chosen)
        try:
            yield Page(self)
        except BaseException:
            print(*self.ask(close=True), sep="\n")  # what may have led to it
            raise
        problems = self.ask(close=True)
        assert not problems, "\n".join(problems)

    def close(self) -> None:
        assert self._node.stdin is not None
        self._node.stdin.close()
        self._node.wait()
