"""What can be done with a conversation on the page, in a real browser where there is one."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from .browser import (  # noqa: F401
    Browser,
    fixture_browser,
    fixture_chromium,
    fixture_pair,
)
from .serving import Server
from .test_demo_calls import TOOLS

# An answer that does not end by itself soon.
LONG = json.dumps({"type": "array", "items": {"type": "integer"}, "minItems": 300})
STOP_SOON = """new MutationObserver((_, observer) => {
  if (document.querySelectorAll("#messages .token").length < 3) return;
  observer.disconnect();
  document.getElementById("stop").click();
}).observe(document.getElementById("messages"), {childList: true, subtree: true})"""


def test_a_stopped_answer_stays_in_the_conversation(browser: Browser) -> None:
    browser.constrain("schema", LONG)
    browser.page.fill("#max_tokens", "700")
    browser.page.evaluate(STOP_SOON)
    said = browser.ask("Count.")
    assert "[" in said
    browser.expects("#messages .mark").to_have_text("stopped")
    browser.constrain("choice", "yes\nno")
    assert browser.ask("Is that all?") in ("yes", "no")
    told = browser.sent()["messages"]
    assert [message["role"] for message in told] == ["user", "assistant", "user"]
    assert told[1]["content"] == said


def test_what_is_stopped_before_its_first_token_is_typed_again(browser: Browser) -> None:
    browser.page.route("**/v1/chat/completions", lambda route: None)
    browser.page.fill("#prompt", "Hello!")
    browser.page.press("#prompt", "Enter")
    browser.page.click("#stop")
    browser.expects("#prompt").to_have_value("Hello!")
    browser.expects("#messages li").to_have_count(0)


def test_an_answer_that_is_cut_says_so(browser: Browser) -> None:
    browser.page.fill("#max_tokens", "2")
    said = browser.ask("Tell me about a horse.")
    browser.expects("#messages .mark").to_contain_text("cut")
    browser.page.fill("#max_tokens", "100")
    browser.ask("Go on.")
    assert browser.sent()["messages"][1] == {"role": "assistant", "content": said}
    browser.expects("#messages .mark").to_have_count(1)


def test_the_view_follows_the_answer(browser: Browser) -> None:
    page = browser.page
    page.set_viewport_size({"width": 390, "height": 500})
    browser.constrain("schema", LONG)
    page.fill("#max_tokens", "700")
    browser.ask("Count.")
    rest = "(box => box.scrollHeight - box.scrollTop - box.clientHeight)(document.getElementById('messages'))"
    assert page.evaluate("(box => box.scrollHeight > box.clientHeight)(document.getElementById('messages'))")
    assert page.evaluate(rest) < 60
    # Nobody is taken away from what they read: the view stays where it was once the answer has begun.
    page.evaluate(
        """new MutationObserver((_, observer) => {
          if (!document.querySelector("#messages li:nth-of-type(4) .token")) return;
          observer.disconnect();
          document.getElementById("messages").scrollTop = 0;
        }).observe(document.getElementById("messages"), {childList: true, subtree: true})"""
    )
    browser.ask("Again.")
    assert page.evaluate("document.getElementById('messages').scrollTop") == 0


def test_results_of_functions_can_be_entered(browser: Browser) -> None:
    page = browser.page
    page.click("summary:has-text('Tools')")
    page.fill("#tools", json.dumps(TOOLS))
    browser.ask("What is the weather in Rome?")
    assert re.search(r'get_weather\(.*"Rome"', page.inner_text("#messages .calls pre"))
    # They are still asked for after a reload.
    page.reload()
    page.fill("#messages .result", '{"weather": 17}')
    browser.expects("#engine").to_contain_text("exact")
    page.click("#messages .results")
    page.wait_for_selector("#messages li.tool")
    page.wait_for_selector("#messages li.assistant >> nth=1")
    assert browser.answer() == "The weather for Rome is 17."
    call, result = browser.sent()["messages"][1:]
    assert result == {
        "role": "tool",
        "tool_call_id": call["tool_calls"][0]["id"],
        "content": '{"weather": 17}',
    }
    browser.expects("#messages .result").to_have_count(0)


def test_results_that_cannot_be_sent_are_asked_for_again(browser: Browser) -> None:
    page = browser.page
    page.click("summary:has-text('Tools')")
    page.fill("#tools", json.dumps(TOOLS))
    browser.ask("What is the weather in Rome?")
    page.fill("#messages .result", '{"weather": 17}')
    page.fill("#temperature", "9")
    page.click("#messages .results")
    browser.expects("#messages .mark.error").to_contain_text("temperature")
    browser.expects("#messages .result").to_have_value('{"weather": 17}')
    page.fill("#temperature", "0")
    page.click("#messages .results")
    browser.expects("#messages li.assistant .tokens >> nth=-1").to_have_text("The weather for Rome is 17.")
    browser.said = [said for said in browser.said if "400" not in said]


def test_the_system_prompt_is_sent(browser: Browser) -> None:
    browser.page.fill("#system", "Answer in one word.")
    browser.ask("Hello!")
    assert [message["role"] for message in browser.sent()["messages"]] == ["system", "user"]
    assert browser.sent()["messages"][0]["content"] == "Answer in one word."


@pytest.mark.parametrize(
    ("example", "kind", "form"),
    [
        ("a date (regular expression)", "regex", r"\d{4}-\d\d-\d\d"),
        ("a sum (Lark grammar)", "lark_grammar", r"\d+([+-]\d+)+=\d+"),
        ("one of several (choices)", "choice", "billing|shipping|damaged"),
    ],
)
def test_answers_take_other_forms_than_schemas(browser: Browser, example: str, kind: str, form: str) -> None:
    browser.page.select_option("#example", label=example)
    browser.page.wait_for_selector("#verdict.good")
    assert re.fullmatch(form, browser.ask(browser.page.input_value("#prompt")))
    assert browser.sent()["response_format"]["type"] == kind


def test_each_form_keeps_its_text(browser: Browser) -> None:
    browser.constrain("regex", "a+")
    browser.constrain("choice", "yes\nno")
    browser.page.select_option("#kind", "regex")
    browser.expects("#constraint").to_have_value("a+")
    browser.page.fill("#constraint", "a(")
    browser.page.wait_for_selector("#verdict.bad")
    browser.page.select_option("#kind", "text")
    browser.expects("#constraint").to_be_hidden()
    browser.expects("#verdict").to_have_text("")


@pytest.mark.parametrize("kind", ["choice", "score", "noul"])
def test_a_decision_shows_the_probability_of_each_option(browser: Browser, kind: str) -> None:
    page = browser.page
    page.click("summary:has-text('Decision')")
    page.select_option("#decision_type", kind)
    page.click("#decide")
    page.wait_for_selector("#decision .bars")
    shares = [float(text.strip("< %")) for text in page.locator("#decision b").all_inner_texts()]
    assert len(shares) == (2 if kind == "noul" else 3)
    assert abs(sum(shares) - 100) < 0.5
    widths = page.evaluate(
        "[...document.querySelectorAll('.fill')]"
        ".map((fill) => 100 * fill.offsetWidth / fill.parentElement.offsetWidth)"
    )
    assert all(abs(width - share) < 2 for width, share in zip(widths, shares, strict=True))


def stream(content: str) -> str:
    """A streamed chat that says this."""
    origin = {"id": 1, "token": content, "source": None, "refused": []}
    choice = {"index": 0, "delta": {"content": content}, "token_origins": [origin], "finish_reason": None}
    end: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": "stop"}
    return (
        "".join(f"data: {json.dumps({'choices': [one]})}\n\n" for one in (choice, end)) + "data: [DONE]\n\n"
    )


WRITTEN = """**bold** and `code`

| a | b |
|---|---|
| 1 | 2 |

<script>document.title = "taken"</script><img src=x onerror="document.title = 'taken'">
<iframe src="https://example.com"></iframe><p style="color: red" onclick="alert(1)" id="send">text</p>

[a link](javascript:alert(1)) and [another](https://example.com)
"""


def test_markdown_is_shown_and_nothing_in_it_is_run(browser: Browser) -> None:
    page = browser.page
    page.route(
        "**/v1/chat/completions",
        lambda route: route.fulfill(body=stream(WRITTEN), content_type="text/event-stream"),
    )
    page.check("#format")
    page.fill("#prompt", "Write.")
    page.press("#prompt", "Enter")
    shown = page.locator("#messages .formatted")
    shown.locator("strong").wait_for()
    assert shown.locator("code").inner_text() == "code"
    assert shown.locator("td").all_inner_texts() == ["1", "2"]
    # HTML is shown as text.
    assert "<img src=x onerror" in shown.inner_text()
    assert shown.locator("script, img, iframe, [style], [onclick], [id]").count() == 0
    assert [link.get_attribute("href") for link in shown.locator("a").all()] == [None, "https://example.com"]
    assert shown.locator("a").last.get_attribute("rel") == "noopener noreferrer"
    assert page.title() == "llgtrt playground"
    browser.expects("#messages .tokens").to_be_hidden()
    page.uncheck("#format")
    browser.expects("#messages .tokens").to_contain_text("**bold**")


def test_json_is_indented_where_it_is_formatted(browser: Browser) -> None:
    browser.page.check("#format")
    browser.constrain("schema", '{"const": {"a": 1}}')
    browser.ask("Say it.")
    browser.expects("#messages .formatted pre").to_have_text('{\n  "a": 1\n}')


def test_the_conversation_survives_a_reload(browser: Browser) -> None:
    page = browser.page
    page.fill("#system", "Be brief.")
    page.fill("#key", "secret")
    browser.constrain("choice", "yes\nno")
    said = browser.ask("Is it raining?")
    drafted = page.locator("#messages .token").count()
    page.reload()
    browser.expects("#engine").to_contain_text("exact")
    assert page.locator("#messages .tokens").inner_text() == said
    assert page.locator("#messages .token").count() == drafted
    browser.expects("#system").to_have_value("Be brief.")
    browser.expects("#constraint").to_have_value("yes\nno")
    browser.expects("#key").to_have_value("")
    assert "secret" not in page.evaluate("JSON.stringify(localStorage)")
    browser.ask("Is it snowing?")
    told = [(message["role"], message["content"]) for message in browser.sent()["messages"]]
    assert told == [
        ("system", "Be brief."),
        ("user", "Is it raining?"),
        ("assistant", said),
        ("user", "Is it snowing?"),
    ]
    page.click("#clear")
    page.reload()
    browser.expects("#messages li").to_have_count(0)


def test_a_number_that_is_left_out_is_not_sent(browser: Browser) -> None:
    browser.ask("Hello!")
    assert browser.sent()["seed"] == 1
    for field in ("seed", "temperature", "top_p", "max_tokens"):
        browser.page.fill(f"#{field}", "")
    browser.page.fill("#max_tokens", "5")
    browser.ask("Hello!")
    assert browser.sent().keys() & {"seed", "temperature", "top_p", "max_tokens"} == {"max_tokens"}


def test_a_token_tells_what_would_have_been_without_the_constraint(browser: Browser) -> None:
    browser.constrain("schema", '{"const": "the only answer"}')
    browser.ask("Say something.")
    steered = browser.page.locator("#messages .token.steered")
    assert steered.count() > 0
    steered.first.hover()
    told = browser.page.inner_text("#tip")
    assert re.search(r"the constraint allowed (< )?\d+\.\d % of the probability", told)
    assert re.search(r"likeliest without it: .+, (< )?\d+\.\d %", told)
    browser.page.click("#clear")
    browser.page.select_option("#kind", "text")
    browser.ask("Say something.")
    assert browser.page.locator("#messages .token.steered").count() == 0


def test_a_stream_tells_what_the_constraint_allowed(pair: Server) -> None:
    body = {
        "messages": [{"role": "user", "content": "What is the weather in Rome?"}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"const": "one"}}},
        "stream": True,
        "stream_options": {"include_token_origin": True},
        "logprobs": True,
        "top_logprobs": 1,
        "temperature": 0,
        "max_tokens": 20,
    }
    origins = told(pair, body)
    assert all(0 <= origin["allowed"] <= 1 for origin in origins)
    # The first token is a quotation mark, which the model would not have said.
    first = origins[0]
    assert first["allowed"] < first["likeliest"]["probability"]
    assert first["likeliest"]["id"] != first["id"]
    # Without the likeliest tokens, with other probabilities, or without a constraint, less is known.
    assert "likeliest" not in told(pair, body | {"top_logprobs": 0})[0]
    assert "allowed" not in told(pair, body | {"logprobs_of": "allowed"})[0]
    assert "allowed" not in told(pair, body | {"response_format": {"type": "text"}})[0]
    assert "allowed" not in told(pair, body | {"logprobs": False, "top_logprobs": None})[0]


def told(server: Server, body: dict[str, Any]) -> list[Any]:
    """The `token_origins` of a streamed chat."""
    response = server.http.post("/v1/chat/completions", json=body)
    assert response.status_code == 200, response.text
    chunks = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    return [origin for choice in choices for origin in choice.get("token_origins", ())]
