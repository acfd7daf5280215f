"""The page in Chromium, for tests."""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from .serving import PATIENCE, ROOT, Server, serving_demo


@pytest.fixture(name="pair", scope="module")
def fixture_pair() -> Iterator[Server]:
    """The demo pair, always drafting by all that it has."""
    speculative = {"draft_model": str(ROOT / "demo" / "draft"), "adaptive": False, "max_draft_len": 6}
    with serving_demo({"speculative": speculative}) as server:
        yield server


class Browser:
    """A page in Chromium, and what its console said."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.said: list[str] = []
        self.bodies: list[Any] = []
        page.on(
            "console", lambda message: self.said.append(message.text) if message.type == "error" else None
        )
        page.on("request", self._note)
        page.on("pageerror", lambda error: self.said.append(str(error)))

    def _note(self, request: Any) -> None:
        if request.url.endswith("/chat/completions"):
            self.bodies.append(json.loads(request.post_data))

    def expects(self, selector: str) -> Any:
        """What is waited for of an element."""
        playwright = importlib.import_module("playwright.sync_api")
        return playwright.expect(self.page.locator(selector))

    def ask(self, prompt: str) -> str:
        """Sends a prompt and waits for the whole answer; its text."""
        self.page.fill("#prompt", prompt)
        self.page.press("#prompt", "Enter")
        return self.answer()

    def answer(self) -> str:
        """Waits for the whole answer; its text."""
        self.page.wait_for_selector("#send:not([disabled])")
        return str(self.page.locator("#messages li.assistant .tokens").last.inner_text())

    def constrain(self, kind: str, text: str) -> None:
        """Chooses a form of answers."""
        self.page.select_option("#kind", kind)
        self.page.fill("#constraint", text)
        self.page.wait_for_selector("#verdict.good")

    def sent(self) -> Any:
        """The body of the last chat."""
        return self.bodies[-1]


@pytest.fixture(name="chromium", scope="module")
def fixture_chromium() -> Iterator[Any]:
    """Debian's Chromium, driven by Playwright (launch/requirements/page.txt)."""
    try:
        playwright = importlib.import_module("playwright.sync_api")
    except ImportError:
        pytest.skip("skipped: no playwright")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("skipped: no chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(name="browser")
def fixture_browser(chromium: Any, pair: Server) -> Iterator[Browser]:
    # A context of its own: nothing is remembered from another test.
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(PATIENCE * 1000)
    browser = Browser(page)
    page.goto(pair.url)
    browser.expects("#engine").to_contain_text("exact")
    yield browser
    assert browser.said == [], browser.said
    context.close()
