"""The playground, and where tokens came from: the page itself in a real browser where there is one."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from llgtrt.page import FILES

from .browser import (  # noqa: F401
    Browser,
    fixture_browser,
    fixture_chromium,
    fixture_pair,
)
from .serving import ROOT, Server, serving_demo

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 130}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
ASKED = "Extract the person: Anna Schmidt is 34 years old and lives in Berlin."
CHAT = {
    "messages": [{"role": "user", "content": ASKED}],
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA},
    },
    "temperature": 0,
    "max_tokens": 80,
    "stream": True,
    "stream_options": {"include_usage": True, "include_token_origin": True},
}


def streamed(server: Server, **more: Any) -> tuple[str, list[dict[str, Any]], dict[str, Any]]:
    """Text, origins and usage of a streamed answer."""
    response = server.http.post("/v1/chat/completions", json=CHAT | more)
    assert response.status_code == 200, response.text
    lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: {")]
    chunks = [json.loads(line) for line in lines]
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    origins = [origin for choice in choices for origin in choice.get("token_origins", ())]
    return text, origins, chunks[-1]["usage"]


def test_every_token_of_a_stream_tells_who_drafted_it(pair: Server) -> None:
    text, origins, usage = streamed(pair, speculative={"report": True})
    assert "".join(origin["token"] for origin in origins) == text
    told = Counter(origin["source"] for origin in origins)
    counted = {name: of["accepted"] for name, of in usage["speculative"]["sources"].items()}
    assert {name: told[name] for name in counted} == counted
    assert told["forced"] > 0
    assert told["draft_model"] > 0
    # What was refused stands with the token that was drawn in its stead.
    refusing = [origin for origin in origins if origin["refused"]]
    assert all(origin["source"] is None for origin in refusing)
    assert all(origin["refused"][0]["id"] != origin["id"] for origin in refusing)


def test_without_drafts_the_same_text_is_all_drawn(pair: Server) -> None:
    text, _, _ = streamed(pair)
    same, origins, _ = streamed(pair, speculative={"enabled": False})
    assert same == text
    assert {(origin["source"], *origin["refused"]) for origin in origins} == {(None,)}
    asked = {"stream_options": {"include_usage": True}}
    assert streamed(pair, **asked)[1] == []


def test_the_page_needs_no_key_and_no_other_host(pair: Server) -> None:
    page = pair.http.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    files = re.findall(r'(?:src|href)="(/page/[^"]+)"', page.text)
    assert set(files) <= FILES.keys()
    sources = [page.text]
    for name in FILES:
        file = pair.http.get(name)
        assert file.status_code == 200, name
        # Comments of libraries name where they are from.
        sources += [] if "/vendor/" in name else [file.text]
    hosts = {host for text in sources for host in re.findall(r"https?://[^\s\"'`]+", text)}
    assert hosts <= {"http://www.w3.org/2000/svg"}
    assert pair.http.get("/page/app.py").status_code == 404


def test_libraries_of_the_page_are_those_that_are_named() -> None:
    folder = ROOT / "python" / "llgtrt" / "page" / "vendor"
    named = dict(re.findall(r"^\| (\S+\.js) \|.*\| (\w{64}) \|$", (folder / "README.md").read_text(), re.M))
    held = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.glob("*.js")}
    assert named == held


def test_the_page_can_be_left_out() -> None:
    with serving_demo({"server": {"page": False}}) as server:
        assert server.http.get("/").status_code == 404


def shot(browser: Browser, name: str) -> None:
    """A picture for the README, where one is wanted."""
    folder = os.environ.get("LLGTRT_SCREENSHOTS")
    if folder:
        browser.page.screenshot(path=str(Path(folder) / name))


def test_a_schema_is_checked_an_answer_coloured_and_the_same_without_drafts(browser: Browser) -> None:
    page = browser.page
    page.select_option("#example", label="a person")
    page.wait_for_selector("#verdict.good")
    text = browser.ask(ASKED)
    assert set(json.loads(text)) == {"name", "age", "city"}
    drafted = page.locator("#messages .token.draft_model")
    assert drafted.count() > 0
    drafted.first.hover()
    assert "draft_model" in page.inner_text("#tip")
    assert "probability" in page.inner_text("#tip")
    shot(browser, "playground.png")
    page.click("#clear")
    page.uncheck("#speculation")
    assert browser.ask(ASKED) == text
    assert page.locator("#messages .token:not(.sampled)").count() == 0
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    shot(browser, "playground-phone.png")


def test_what_a_schema_leaves_no_choice_in_is_forced(browser: Browser) -> None:
    browser.constrain("schema", '{"const": "the only answer"}')
    assert json.loads(browser.ask("Say something.")) == "the only answer"
    assert browser.page.locator("#messages .token.forced").count() > 0


def test_a_schema_that_cannot_be_enforced_says_why(browser: Browser) -> None:
    page = browser.page
    page.select_option("#kind", "schema")
    page.fill("#constraint", '{"type": "strin"}')
    page.wait_for_selector("#verdict.bad")
    assert "type" in page.inner_text("#verdict")
    page.fill("#constraint", "{")
    browser.expects("#verdict").to_contain_text("JSON")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_bars_the_way(browser: Browser, scheme: str) -> None:
    axe = importlib.import_module("axe_playwright_python.sync_playwright")
    page = browser.page
    page.emulate_media(color_scheme=scheme)
    page.fill("#max_tokens", "2")
    browser.ask("Tell me about a horse.")
    page.wait_for_selector("#messages .mark")
    page.fill("#max_tokens", "20")
    browser.constrain("regex", "Hello|Good day")
    browser.ask("Hello!")
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    page.click("#decide")
    page.wait_for_selector("#decision .bars")
    page.check("#format")
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        result = axe.Axe().run(page).response
        faults = [(fault["id"], [node["html"] for node in fault["nodes"]]) for fault in result["violations"]]
        assert faults == [], width


def test_it_works_by_keyboard_alone(browser: Browser) -> None:
    page = browser.page
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.focus("#prompt")
    page.keyboard.type("Hello!")
    page.keyboard.press("Enter")
    page.wait_for_selector("#messages li.assistant .token")
    page.wait_for_selector("#send:not([disabled])")
    assert page.evaluate("document.activeElement.id") == "prompt"


def test_the_request_elsewhere_is_the_one_that_is_sent(browser: Browser) -> None:
    page = browser.page
    page.click("summary:has-text('This request elsewhere')")
    for language, begins in [
        ("curl", "curl http"),
        ("Python", "import json"),
        ("TypeScript", "import OpenAI"),
    ]:
        page.select_option("#language", language)
        page.fill("#prompt", "it's a test")
        browser.expects("#code").to_have_value(re.compile(f"^{begins}"))
    browser.expects("#code").not_to_have_value(re.compile(" as unknown as OpenAI"))
    page.uncheck("#speculation")
    browser.expects("#code").to_have_value(
        re.compile(r"} as unknown as OpenAI\.\w+CreateParamsNonStreaming\);")
    )
