"""What `LLM` needs to open an engine, and to decide."""

from __future__ import annotations

import select
from collections.abc import Mapping
from typing import Any

import msgspec

from llgtrt import _core, templates
from llgtrt.client import Answer, answer_of
from llgtrt.openai.body import parse
from llgtrt.openai.chat import Model
from llgtrt.openai.decisions.asking import answer, asked, prompted
from llgtrt.openai.decisions.fields import SystemOneRequest, check
from llgtrt.openai.decisions.tree import MOST_PATHS, Decision, Found, Rows, advance, rounds
from llgtrt.openai.errors import ApiError
from llgtrt.prompt import Vocabulary
from llgtrt.settings import Settings, StartError, load

POLL_MS = 1000
"""How long one look at the engine waits; only so that a signal is noticed."""


def opened(
    model: str, runtime_config: str | None, overrides: Mapping[str, Any]
) -> tuple[Settings, _core.Engine]:
    """The loaded engine; errors as `LLM` says."""
    try:
        settings = load(model, runtime_config, dict(overrides))
        templates.check(settings)
        core = _core.Engine(settings.target, settings.config, None)
    except (StartError, _core.InvalidRequest) as e:
        raise ValueError(str(e)) from e
    poll = select.poll()
    poll.register(core.fileno(), select.POLLIN)
    while core.state()[0] == "loading":
        poll.poll(POLL_MS)
        core.drain()
    state, why = core.state()
    if state != "ready":
        core.close()
        raise (ValueError if state == "failed" else RuntimeError)(why)
    return settings, core


class Decider:
    """Answers typed questions, one after the other."""

    def __init__(
        self, core: _core.Engine, template: templates.ChatTemplate | None, settings: Settings
    ) -> None:
        """`template`: None = questions are plain text."""
        self._core = core
        self._vocabulary = Vocabulary(core)
        self._prompts = settings.server.decision_prompts
        self._model = Model.of(template, self._vocabulary, settings.server) if template else None
        self._most = min(msgspec.json.decode(core.info())["max_running"], MOST_PATHS)

    def decide(self, body: Mapping[str, Any]) -> dict[str, Answer]:
        """The answers by the names of the questions; `body`: that of `/v1/systemone`.

        Raises:
            ValueError: a field is wrong; the message names it.
            RuntimeError: the engine failed.
        """
        try:
            read = parse(msgspec.json.encode(body), SystemOneRequest, "refuse")
            check(read)
            questions = asked(
                read, self._prompts, {}, lambda text: prompted(self._model, self._vocabulary, text)
            )
            return {
                name: answer_of(answer(one, self._decided(one.decision))) for name, one in questions.items()
            }
        except (ApiError, _core.InvalidRequest, _core.GrammarError) as e:
            raise ValueError(str(e)) from e
        except _core.CoreError as e:
            raise RuntimeError(str(e)) from e

    def _decided(self, decision: Decision) -> Found:
        asking = rounds(self._vocabulary, decision, max(self._most, 1))
        step = advance(asking, None)
        while not isinstance(step, Found):
            step = advance(asking, self._evaluated(*step))
        return step

    def _evaluated(self, request: str, paths: int) -> Rows:
        number = self._core.submit(request)
        found: Rows = [[] for _ in range(paths)]
        running = {*range(paths)}
        poll = select.poll()
        poll.register(self._core.fileno(), select.POLLIN)
        try:
            while running:
                poll.poll(POLL_MS)
                for event in self._core.drain():
                    if event.request != number:
                        continue
                    if event.error is not None:
                        raise event.error
                    found[event.choice] += event.successors
                    running -= {event.choice} if event.finish_reason else set()
        finally:
            self._core.cancel(number)
        return found
