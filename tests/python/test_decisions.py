"""What follows from probabilities: confidences, temperatures, and how well they are calibrated."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from llgtrt import calibrate
from llgtrt.client import Client
from llgtrt.openai.decisions import distribution
from llgtrt.openai.decisions.places import span
from llgtrt.settings import StartError


def test_confidences_are_those_of_the_published_example() -> None:
    # The example of llama-server's documentation.
    assert distribution.choice_confidence([0.9998, 0.0001, 0.0001]) == pytest.approx(0.9997, abs=1e-4)
    urgency = [0.0023, 0.116, 0.6753, 0.2064]
    assert distribution.expected_level(urgency) == pytest.approx(2.0858, abs=1e-4)
    assert distribution.score_confidence(urgency) == pytest.approx(0.673, abs=1e-3)


@pytest.mark.parametrize("count", range(2, 11))
def test_confidences_go_from_nothing_to_certainty(count: int) -> None:
    uniform = [1 / count] * count
    certain = [0.0] * (count - 1) + [1.0]
    for confidence in distribution.choice_confidence, distribution.score_confidence:
        assert confidence(uniform) == pytest.approx(0, abs=1e-9)
        assert confidence(certain) == 1


def test_a_temperature_keeps_the_order_and_the_sum() -> None:
    found = [0.7, 0.2, 0.1, 0.0]
    for temperature in (0.1, 1, 5):
        tempered = distribution.tempered(found, temperature)
        assert math.isclose(sum(tempered), 1)
        assert tempered == sorted(tempered, reverse=True)
    assert distribution.tempered(found, 1) == pytest.approx(found)


def examples(count: int, temperature: float) -> list[calibrate.Example]:
    """Answers that are right as often as the probabilities at this temperature say."""
    draw = random.Random(1)
    made: list[calibrate.Example] = []
    for _ in range(count):
        found = distribution.tempered([draw.random() for _ in range(4)], 0.3)
        true = distribution.tempered(found, temperature)
        made.append((found, draw.choices(range(4), true)[0]))
    return made


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5])
def test_the_temperature_behind_the_examples_is_found(temperature: float) -> None:
    report = calibrate.report(examples(8000, temperature))
    assert report.temperature == pytest.approx(temperature, rel=0.06)
    assert report.log_loss[1] <= report.log_loss[0] + 1e-4
    assert report.calibration_error[1] < 0.03
    if temperature == 2.5:
        assert report.calibration_error[0] > 0.1


def test_a_calibration_error_is_the_gap_of_each_range() -> None:
    sure = ([0.95, 0.05], 0), ([0.95, 0.05], 1)
    assert calibrate.calibration_error(sure) == pytest.approx(0.45)
    assert calibrate.log_loss(sure) == pytest.approx(-(math.log(0.95) + math.log(0.05)) / 2)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "line 1"),
        ('{"state": "s"}', "answers"),
        ('{"state": "s", "answers": {"q": true}}', "answers.q: there is no such question"),
    ],
)
def test_a_line_that_is_no_example_is_named(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "examples.jsonl"
    file.write_text(text)
    with pytest.raises(StartError, match=why):
        list(calibrate._lines(file))


def test_lines_have_the_questions_of_the_one_before(tmp_path: Path) -> None:
    file = tmp_path / "examples.jsonl"
    file.write_text(
        '{"state": "a", "questions": {"q": {"type": "noul", "temperature": 2}, "r": {}}, '
        '"answers": {"q": true}}\n'
        '\n{"state": "b", "answers": {"r": 1}}\n'
    )
    lines = list(calibrate._lines(file))
    assert [list(questions) for _, _, questions in lines] == [["q"], ["r"]]
    assert lines[0][2]["q"] == {"type": "noul"}


@pytest.mark.parametrize("url", ["localhost:3000", "ftp://x", "http://"])
def test_a_client_wants_a_url(url: str) -> None:
    with pytest.raises(ValueError, match="is not like http"):
        Client(url)


def test_values_are_found_by_their_pointers() -> None:
    text = ' { "a" : [ 1, {"b": "x\\"}"} , true ], "c":null,"":{"d": 2.5} } '

    def at(*parts: str) -> str | None:
        place = span(text, parts)
        return None if place is None else text[slice(*place)]

    assert at("a", "0") == "1"
    assert at("a", "1", "b") == '"x\\"}"'
    assert at("a", "2") == "true"
    assert at("c") == "null"
    assert at("", "d") == "2.5"
    for lacking in (("b",), ("a", "3"), ("c", "x"), ("a", "1", "b", "0")):
        assert at(*lacking) is None
    assert span('{"a": "cut', ("a",)) is None
    assert span("", ()) is None
