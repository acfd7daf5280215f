"""`llgtrt calibrate`: fits the temperatures of typed questions to examples with known answers.

A temperature above 1 corrects a model that is too sure of itself; the order of the options does not change.
The best temperature has the least log loss (Guo et al., "On Calibration of Modern Neural Networks", 2017).
The improvement is measured on other examples than the fitted ones: on each half with the temperature of the
other.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from llgtrt.client import Answer, ChoiceAnswer, Client, NoulAnswer
from llgtrt.files import numbered_lines
from llgtrt.models import columns
from llgtrt.openai.decisions.distribution import tempered
from llgtrt.settings import StartError

_AT_ONCE = 8
_BINS = 10
_RANGE = (0.05, 20.0)
"""Temperatures that are looked at."""

Example = tuple[Sequence[float], int]
"""The probabilities of the options at temperature 1, and the index of the right one."""


class _Line(msgspec.Struct):
    """An example of the file."""

    state: Any
    answers: dict[str, Any]
    questions: dict[str, dict[str, Any]] | None = None


@dataclasses.dataclass(frozen=True)
class Report:
    """What is found of one question. Pairs are before and after."""

    examples: int
    right: float
    temperature: float
    log_loss: tuple[float, float]
    calibration_error: tuple[float, float]


def main(parsed: argparse.Namespace) -> int:
    """Asks the server, and prints a report.

    Raises:
        StartError: the file or the server cannot be used.
    """
    lines = list(_lines(Path(parsed.input)))
    try:
        client = Client(parsed.url)
        with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
            found = list(pool.map(lambda line: _asked(client, line[1].state, line[2]), lines))
    except (OSError, ValueError, RuntimeError) as e:
        raise StartError(f"{parsed.url}: {e}") from e
    examples: dict[str, list[Example]] = {}
    for (place, line, _), answers in zip(lines, found, strict=True):
        for name, answer in answers.items():
            examples.setdefault(name, []).append(
                _example(f"{place}: answers.{name}", answer, line.answers[name])
            )
    print(table({name: report(own) for name, own in examples.items()}))
    return 0


def _lines(file: Path) -> Iterator[tuple[str, _Line, dict[str, dict[str, Any]]]]:
    """Where each example stands, and its questions: those that have an answer.

    Raises:
        StartError: the file cannot be read, or a line is no example.
    """
    known: dict[str, dict[str, Any]] = {}
    for number, text in numbered_lines(file):
        place = f"{file}, line {number}"
        try:
            line = msgspec.json.decode(text, type=_Line)
        except msgspec.DecodeError as e:
            raise StartError(f"{place}: {e}") from e
        known = line.questions or known
        if unknown := line.answers.keys() - known.keys():
            raise StartError(f"{place}: answers.{min(unknown)}: there is no such question in `questions`")
        plain = {
            name: {field: value for field, value in known[name].items() if field != "temperature"}
            for name in line.answers
        }
        yield place, line, plain


def _asked(client: Client, state: Any, questions: Mapping[str, Mapping[str, Any]]) -> dict[str, Answer]:
    return client.decide(state, questions, temperature=1.0) if questions else {}


def _example(place: str, answer: Answer, right: Any) -> Example:
    """Raises StartError where the answer that is said to be right is no option."""
    options: dict[Any, float]
    if isinstance(answer, NoulAnswer):
        options = {True: answer.noul, False: 1 - answer.noul}
    else:
        options = {**answer.probabilities}
    known = list(options)
    wanted = bool if isinstance(answer, NoulAnswer) else str if isinstance(answer, ChoiceAnswer) else int
    if type(right) is not wanted or right not in options:
        raise StartError(f"{place}: {right!r} is not one of {', '.join(map(repr, known))}")
    return [options[option] for option in known], known.index(right)


def report(examples: Sequence[Example]) -> Report:
    """What the examples of one question say of it."""
    halves = examples[::2], examples[1::2]
    fitted = [fit(half) if half else 1.0 for half in halves]
    after = [
        (tempered(found, temperature), right)
        for half, temperature in zip(halves, reversed(fitted), strict=True)
        for found, right in half
    ]
    return Report(
        len(examples),
        sum(_best(found) == right for found, right in examples) / len(examples),
        fit(examples),
        (log_loss(examples), log_loss(after)),
        (calibration_error(examples), calibration_error(after)),
    )


def fit(examples: Sequence[Example]) -> float:
    """The temperature with the least log loss, by golden-section search: there is one minimum."""

    def loss(log: float) -> float:
        return log_loss([(tempered(found, math.exp(log)), right) for found, right in examples])

    low, high = map(math.log, _RANGE)
    ratio = (math.sqrt(5) - 1) / 2
    while high - low > 1e-4:
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if loss(left) <= loss(right):
            high = right
        else:
            low = left
    return math.exp((low + high) / 2)


def log_loss(examples: Sequence[Example]) -> float:
    """The mean of minus the logarithm of the right option's probability."""
    return -math.fsum(math.log(max(found[right], 1e-12)) for found, right in examples) / len(examples)


def calibration_error(examples: Sequence[Example]) -> float:
    """How far the likeliest option's probability is from how often it is right.

    Examples are sorted into ten equal ranges of this probability. In each range, the mean probability is
    compared with the share of right answers. Ranges count by their number of examples. Guo et al. call the
    result the expected calibration error.
    """
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(_BINS)]
    for found, right in examples:
        best = _best(found)
        bins[min(int(found[best] * _BINS), _BINS - 1)].append((found[best], best == right))
    gaps = (abs(math.fsum(p - is_right for p, is_right in one)) for one in bins)
    return math.fsum(gaps) / len(examples)


def _best(found: Sequence[float]) -> int:
    return max(range(len(found)), key=lambda option: found[option])


def table(reports: Mapping[str, Report]) -> str:
    """The reports, a line each."""
    heads = ("question", "examples", "right", "temperature", "log loss", "calibration error")
    rows = [heads]
    for name, one in reports.items():
        losses, errors = (
            f"{before:.3f} -> {after:.3f}" for before, after in (one.log_loss, one.calibration_error)
        )
        rows.append((name, str(one.examples), f"{one.right:.0%}", f"{one.temperature:.2f}", losses, errors))
    return columns(rows)
