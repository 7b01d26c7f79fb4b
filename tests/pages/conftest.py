"""The browser that the pages are tested in, one for all tests of a session."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.pages.browser.driver import Browser, missing


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Skips where there is none; with RINGTREE_BROWSER_REQUIRED=1 that fails."""
    if lacking := missing():
        if os.environ.get("RINGTREE_BROWSER_REQUIRED") == "1":
            pytest.fail(f"RINGTREE_BROWSER_REQUIRED=1, but {lacking}")
        pytest.skip(lacking)
    there = Browser()
    yield there
    there.close()
