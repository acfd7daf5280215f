"""A client for typed decisions: `Client(url).decide(state, questions)`.

For the rest of the API, use OpenAI's client or any other.
"""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

PAGE = "/v1/systemone"


@dataclass(frozen=True)
class ChoiceAnswer:
    """One of several options. `confidence`: from 0, all are equally likely, to 1."""

    choice: str
    probabilities: dict[str, float]
    confidence: float


@dataclass(frozen=True)
class ScoreAnswer:
    """A level of a scale.

    `score`: the mean of the levels, weighted by their probabilities; `legend`: what each level means.
    """

    score: float
    legend: dict[int, Any]
    probabilities: dict[int, float]
    confidence: float


@dataclass(frozen=True)
class NoulAnswer:
    """Yes or no. `noul`: the probability of yes."""

    noul: float


Answer = ChoiceAnswer | ScoreAnswer | NoulAnswer


class Client:
    """A connection to a server; may be used by several threads."""

    def __init__(
        self, url: str = "http://127.0.0.1:3000", api_key: str | None = None, timeout: float = 600
    ) -> None:
        """`api_key`: None = that of the environment's `LLGTRT_API_KEY`. `timeout`: seconds for each answer.

        Raises:
            ValueError: the URL is not one of HTTP.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url: {url} is not like http://127.0.0.1:3000")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._folder = parts.path.rstrip("/").removesuffix("/v1")
        self._key = api_key if api_key is not None else os.environ.get("LLGTRT_API_KEY")
        self._timeout = timeout

    def decide(
        self,
        state: str | Mapping[str, Any] | list[Any],
        questions: Mapping[str, Mapping[str, Any]],
        *,
        temperature: float | None = None,
        model: str | None = None,
    ) -> dict[str, Answer]:
        """Answers typed questions about a state, by their names (docs/decisions.md).

        Raises:
            ValueError: the server refuses the request; the message names the field.
            RuntimeError: the server failed, or has no room for the request.
            OSError: the server cannot be reached.
        """
        more = {"temperature": temperature, "model": model}
        body = {"state": state, "questions": questions, **{n: v for n, v in more.items() if v is not None}}
        answers = self._post(PAGE, body)["answers"]
        return {name: answer_of(told) for name, told in answers.items()}

    def _post(self, page: str, body: Any) -> Any:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=self._timeout)
        headers = {"content-type": "application/json"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        try:
            connection.request("POST", self._folder + page, json.dumps(body).encode(), headers)
            response = connection.getresponse()
            status, text = response.status, response.read()
        finally:
            connection.close()
        if status == 200:
            return json.loads(text)
        kind_of_error = ValueError if 400 <= status < 500 and status != 429 else RuntimeError
        raise kind_of_error(_message(text) or f"the server answered with status {status}")


def _message(text: bytes) -> str | None:
    """What an error's body says."""
    try:
        return str(json.loads(text)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return None


def answer_of(told: Mapping[str, Any]) -> Answer:
    """An answer of `/v1/systemone`."""
    match told["type"]:
        case "choice":
            return ChoiceAnswer(told["choice"], told["probabilities"], told["confidence"])
        case "score":
            legend, found = (
                {int(level): value for level, value in told[n].items()} for n in ("legend", "probabilities")
            )
            return ScoreAnswer(told["score"], legend, found, told["confidence"])
    return NoulAnswer(told["noul"])
