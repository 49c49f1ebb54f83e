"""A Chromium of the system's, and the synthetic studies of tests/report to show in it."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# The tables, and how a page is made of them, are those of the report's own tests.
sys.path.insert(0, str(Path(__file__).parents[1] / "report"))

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def chromium() -> Iterator:
    """A headless browser; a test that needs one is skipped where there is none.

    One a module, not one a session: Playwright keeps an event loop while it runs, and no second one
    can start beside it, so it must have ended before another file's tests start theirs.
    """
    found = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if found is None:
        pytest.skip(f"no browser here, none of {', '.join(CHROMIUMS)}: the page is not opened")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        # Chromium's sandbox does not work as root, which is what we are in most containers.
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = running.chromium.launch(executable_path=found, args=flags)
        yield browser
        browser.close()
