"""Fixtures for tests that look at a page in a real browser, and what holds around every test."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, sync_playwright

from headway.policies import registry

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts tests in the background has them ignore interrupts, and all that they start, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)

CHROMIUM_ARGUMENTS = [
    "--no-sandbox",  # continuous integration runs as root
    "--disable-gpu",
    # The rest keeps Chromium from looking for hosts outside.
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(autouse=True)
def own_registry() -> Iterator[None]:
    """Policies that a test registers are gone after it: tests of all policies must not meet them."""
    before = dict(registry._POLICIES)
    yield
    registry._POLICIES.clear()
    registry._POLICIES.update(before)


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Path of the system's Chromium; without it the test is skipped, or failed where CI is set."""
    path = shutil.which("chromium") or shutil.which("chromium", path="/usr/bin")
    if path is None:
        reason = "needs Chromium: no `chromium` on PATH or in /usr/bin (Debian's package is chromium)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path


@pytest.fixture
def page(chromium_path: str) -> Iterator[Page]:
    """A blank page 1280 x 900 in headless Chromium, without network; for files and set content."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=CHROMIUM_ARGUMENTS)
        context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
        yield context.new_page()
        browser.close()
