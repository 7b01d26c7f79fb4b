"""The test rig: errors of a page are noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages.browser.driver import Browser


def written(folder: Path, body: str) -> Path:
    path = folder / "page.html"
    path.write_text(f"<!doctype html><meta charset=utf-8><title>t</title>{body}", encoding="utf-8")
    return path


def test_a_page_is_read_and_used(browser: Browser, tmp_path: Path) -> None:
    body = """<button id=b onclick="this.textContent = 'done'">do</button>
        <a id=a download=x.txt href="data:text/plain,hello">x</a>"""
    with browser.open(written(tmp_path, body)) as page:
        page.click("#b")
        page.wait("document.querySelector('#b').textContent === 'done'")
        assert page.text("#b") == "done"
        assert page.run("matchMedia('(prefers-color-scheme: light)').matches && navigator.language") == "en-US"
        assert page.download("#a") == ("x.txt", b"hello")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<script>console.error('spam')</script>", "console error: spam"),
        ("<script>missing.call()</script>", "missing is not defined"),
        ("<script>fetch('http://localhost:9/x').catch(() => 0)</script>", "request: http://localhost:9/x"),
        ("<img src=http://localhost:9/y.png>", "request: http://localhost:9/y.png"),
    ],
    ids=["console", "exception", "fetch", "image"],
)
def test_errors_of_a_page_are_noticed(browser: Browser, tmp_path: Path, body: str, expected: str) -> None:
    with pytest.raises(AssertionError, match=expected), browser.open(written(tmp_path, body)) as page:
        page.run("new Promise(done => setTimeout(done, 50))")


def test_a_button_that_is_not_there_is_an_error(browser: Browser, tmp_path: Path) -> None:
    with browser.open(written(tmp_path, "")) as page, pytest.raises(AssertionError, match="Timeout 100ms"):
        page.call("click", "#nothing", {"timeout": 100})
