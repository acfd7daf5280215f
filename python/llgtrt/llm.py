"""The engine without a server, under the names that vLLM's users know.

from llgtrt import LLM, SamplingParams
with LLM("demo/target", speculative_model="demo/draft") as llm:
    for output in llm.generate(["One, two,"], SamplingParams(max_tokens=20, temperature=0)):
        print(output.outputs[0].text)
"""

from __future__ import annotations

import dataclasses
import select
from collections.abc import Generator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec
from tqdm import tqdm

from llgtrt import _core, templates
from llgtrt.client import Answer
from llgtrt.offline import POLL_MS, Decider, opened
from llgtrt.openai import schema, translate
from llgtrt.openai.body import parse
from llgtrt.openai.errors import ApiError
from llgtrt.prompt import Vocabulary
from llgtrt.settings import Names, StartError, given, merged, named

if TYPE_CHECKING:
    from typing_extensions import Unpack

Prompt = str | Mapping[str, Any]
"""A text, or `{"prompt": text}`, or `{"prompt_token_ids": ids}`."""
Message = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class StructuredOutputsParams:
    """What the output must be: exactly one of these. `grammar` is llguidance's dialect of Lark."""

    json: str | Mapping[str, Any] | None = None
    regex: str | None = None
    choice: Sequence[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None

    def response_format(self) -> dict[str, Any]:
        """The same as the HTTP API says it.

        Raises:
            ValueError: not exactly one is given, or `json` is no JSON.
        """
        wanted = msgspec.json.decode(self.json) if isinstance(self.json, str) else self.json
        forms: list[tuple[object, dict[str, Any]]] = [
            (wanted, {"type": "json_schema", "json_schema": {"name": "output", "schema": wanted}}),
            (self.regex, {"type": "regex", "regex": self.regex}),
            (self.choice, {"type": "choice", "choices": list(self.choice or ())}),
            (self.grammar, {"type": "lark_grammar", "grammar": self.grammar}),
            (self.json_object or None, {"type": "json_object"}),
        ]
        chosen = [form for value, form in forms if value is not None]
        if len(chosen) != 1:
            raise ValueError(
                "structured_outputs: give exactly one of json, regex, choice, grammar, json_object"
            )
        return chosen[0]


@dataclasses.dataclass(frozen=True)
class SamplingParams:
    """How to generate, in the ranges of the HTTP API. `logprobs`: alternatives per token; None = none."""

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    stop: str | Sequence[str] | None = None
    stop_token_ids: Sequence[int] | None = None
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True
    allowed_token_ids: Sequence[int] | None = None
    truncate_prompt_tokens: int | None = None
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    logprobs_of: str | None = None
    prompt_logprobs: int | None = None
    bad_words: Sequence[str] | None = None
    logit_bias: Mapping[int, float] | None = None
    structured_outputs: StructuredOutputsParams | None = None

    def body(self) -> schema.CompletionRequest:
        """The same as a body of the HTTP API.

        Raises:
            ValueError: a field has the wrong type.
        """
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        structured: StructuredOutputsParams | None = fields.pop("structured_outputs")
        fields["response_format"] = structured.response_format() if structured else None
        fields["logit_bias"] = {str(key): value for key, value in (self.logit_bias or {}).items()}
        fields["stop"] = list(self.stop) if isinstance(self.stop, tuple) else self.stop
        try:
            return parse(msgspec.json.encode(given(fields) | {"prompt": ""}), schema.CompletionRequest)
        except ApiError as e:
            raise ValueError(f"sampling_params: {e.message}") from e


@dataclasses.dataclass
class CompletionOutput:
    """One choice. `logprobs`: per token, those of the drawn one and of the likeliest, by id."""

    index: int
    text: str = ""
    token_ids: list[int] = dataclasses.field(default_factory=list)
    cumulative_logprob: float | None = None
    logprobs: list[dict[int, float]] | None = None
    finish_reason: str | None = None
    """`stop`, `length`, or `error`."""
    error: str | None = None
    """Why it failed, where `finish_reason` is `error`; what it had before is there."""

    def take(self, event: _core.Event) -> None:
        """Takes news in."""
        self.text += event.text
        self.token_ids += event.tokens
        for token, logprob, alternatives in event.logprobs:
            self.logprobs = self.logprobs or []
            self.logprobs.append({token: logprob} | dict(alternatives))
            self.cumulative_logprob = (self.cumulative_logprob or 0.0) + logprob
        self.finish_reason = event.finish_reason
        if event.error is not None:
            self.finish_reason, self.error = "error", str(event.error)


@dataclasses.dataclass
class RequestOutput:
    """The choices of one prompt. `prompt` is None where it was given as token ids."""

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    finished: bool = False
    num_cached_tokens: int = 0
    prompt_logprobs: list[dict[int, float] | None] | None = None
    """Of each token of the prompt but the first: those of it and of the likeliest, by id."""

    def take(self, event: _core.Event) -> None:
        """Takes news in."""
        self.outputs[event.choice].take(event)
        self.num_cached_tokens = max(self.num_cached_tokens, event.cached_tokens)
        for token, logprob, alternatives in event.prompt_logprobs:
            self.prompt_logprobs = self.prompt_logprobs or [None]
            self.prompt_logprobs.append({token: logprob} | dict(alternatives))


class LLM:
    """An engine in this process. Close it, or use it as a context manager."""

    def __init__(
        self,
        model: str,
        *,
        seed: int | None = None,
        chat_template: str | None = None,
        runtime_config: str | None = None,
        config: Mapping[str, Any] | None = None,
        **names: Unpack[Names],
    ) -> None:
        """Loads a model: an engine folder, a `.gguf` file or `toy`.

        `seed`: that of requests without one, whose output then depends on their order. `runtime_config`: a
        file instead of the folder's `runtime.json`; `config`: keys of it that come before the file. `names`:
        of these, `speculative_model` is a draft model, an MLP speculator, or `[ngram]` for prompt lookup.

        Raises:
            ValueError: a file is missing or a value is refused; the message names it.
            RuntimeError: the engine failed.
        """
        unknown = names.keys() - Names.__annotations__.keys()
        if unknown:
            raise TypeError(f"{min(unknown)}: not a keyword of LLM; `config` takes every key of runtime.json")
        try:
            overrides = merged(named(names), {"max_queue_size": 0})
        except StartError as e:
            raise ValueError(str(e)) from e
        own = {"engine": given({"seed": seed}), "server": given({"chat_template": chat_template})}
        overrides = merged(overrides, {name: keys for name, keys in own.items() if keys})
        self._core: _core.Engine | None = None
        settings, self._core = opened(model, runtime_config, merged(overrides, config or {}))
        self._vocabulary = Vocabulary(self._core)
        self._count = 0
        try:
            info = msgspec.json.decode(self._core.info(), type=dict[str, Any])
            self._template = templates.load(settings, info)
            # Fields of SamplingParams that the configuration sets.
            self.sampling_defaults = settings.sampling
            self._context: int = info["limits"]["context"]
            self._settings = settings
        except StartError as e:
            self.close()
            raise ValueError(str(e)) from e

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        """Completes the prompts, all together; the outputs are in their order.

        `sampling_params`: for all, or one for each prompt; none = `get_default_sampling_params()`.

        Raises:
            ValueError: a prompt, a parameter or a constraint is refused; there are no outputs then.
            RuntimeError: the LLM was closed.
        """
        return self._run(self._read_all(prompts), sampling_params, use_tqdm)

    def generate_stream(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
    ) -> Generator[RequestOutput, None, None]:
        """The same while it goes on: each output whenever it has grown, the last time when it is finished.

        One at a time; what is not waited for to its end is cancelled with the iterator.

        Raises:
            ValueError, RuntimeError: as `generate`; of a constraint while it goes on, else at once.
        """
        return self._begin(self._read_all(prompts), sampling_params)[1]

    def chat(
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        """Answers a conversation, or several: lists of messages with `role` and `content`.

        Raises:
            ValueError: as `generate`; or the model has no chat template, or refuses the messages.
            RuntimeError: the LLM was closed.
        """
        several = [messages] if messages and isinstance(messages[0], Mapping) else messages
        if self._template is None:
            raise ValueError("this model has no chat template; pass one as chat_template")
        read: list[tuple[str | None, list[int]]] = []
        for i, conversation in enumerate(several):
            body = msgspec.json.encode({"messages": list(conversation)})
            try:
                known = translate.messages(parse(body, schema.ChatRequest))
                tokens = self._vocabulary.chat(self._template, known)
                read.append((self._template.render(known), tokens))
            except (ApiError, templates.RenderError) as e:
                raise ValueError(f"conversation {i}: {e}") from e
        return self._run(read, sampling_params, use_tqdm)

    def decide(
        self,
        state: str | Mapping[str, Any] | list[Any],
        questions: Mapping[str, Mapping[str, Any]],
        *,
        temperature: float | None = None,
    ) -> dict[str, Answer]:
        """Answers typed questions about a state, by their names, as `Client.decide` does.

        Raises:
            ValueError: a field is refused; the message names it.
            RuntimeError: the engine failed, or the LLM was closed.
        """
        if self._core is None:
            raise RuntimeError("the LLM was closed")
        decider = Decider(self._core, self._template, self._settings)
        return decider.decide({"state": state, "questions": questions, "temperature": temperature})

    def get_default_sampling_params(self) -> SamplingParams:
        """What configuration and `generation_config.json` say, in place of the usual defaults."""
        return SamplingParams(**self.sampling_defaults)

    def close(self) -> None:
        """Ends the engine. Afterwards nothing can be generated."""
        if self._core is not None:
            self._core.close()
            self._core = None

    def __enter__(self) -> LLM:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read_all(self, prompts: Prompt | Sequence[Prompt]) -> list[tuple[str | None, list[int]]]:
        several = [prompts] if isinstance(prompts, str | Mapping) else list(prompts)
        return [self._read(prompt, f"prompts[{i}]") for i, prompt in enumerate(several)]

    def _read(self, prompt: Prompt, name: str) -> tuple[str | None, list[int]]:
        if isinstance(prompt, str):
            return prompt, self._vocabulary.plain(prompt)
        if isinstance(prompt.get("prompt"), str):
            return prompt["prompt"], self._vocabulary.plain(prompt["prompt"])
        ids = prompt.get("prompt_token_ids")
        if not isinstance(ids, Sequence) or not all(isinstance(i, int) for i in ids):
            raise ValueError(f"{name}: must be a text, or have prompt or prompt_token_ids")
        return None, list(ids)

    def _run(
        self,
        prompts: Sequence[tuple[str | None, list[int]]],
        params: SamplingParams | Sequence[SamplingParams] | None,
        use_tqdm: bool,
    ) -> list[RequestOutput]:
        results, news = self._begin(prompts, params)
        with tqdm(total=len(results), unit="prompt", disable=not use_tqdm) as bar:
            for output in news:
                bar.update(output.finished)
        return results

    def _begin(
        self,
        prompts: Sequence[tuple[str | None, list[int]]],
        params: SamplingParams | Sequence[SamplingParams] | None,
    ) -> tuple[list[RequestOutput], Generator[RequestOutput, None, None]]:
        """Submits all, or none; the outputs, and each of them whenever it has grown."""
        if self._core is None:
            raise RuntimeError("the LLM was closed")
        one = params or self.get_default_sampling_params()
        each = list(one) if isinstance(one, Sequence) else [one] * len(prompts)
        if len(each) != len(prompts):
            raise ValueError(f"sampling_params: {len(each)} for {len(prompts)} prompts")
        bodies = {id(one): one.body() for one in each}
        running: dict[int, RequestOutput] = {}
        results = []
        try:
            for i, ((text, ids), one) in enumerate(zip(prompts, each, strict=True)):
                request = self._submit(bodies[id(one)], ids, f"prompts[{i}]")
                outputs = [CompletionOutput(index) for index in range(one.n)]
                running[request] = RequestOutput(str(self._count), text, ids, outputs)
                self._count += 1
                results.append(running[request])
        except BaseException:
            self._cancel(running)
            raise
        return results, self._collect(running)

    def _cancel(self, running: Iterable[int]) -> None:
        for request in running:
            if self._core is not None:
                self._core.cancel(request)

    def _submit(self, body: schema.CompletionRequest, ids: Sequence[int], name: str) -> int:
        assert self._core is not None
        try:
            cut = translate.cut(body, ids, self._context)
            return self._core.submit(translate.with_prompt(translate.core_request(body), cut))
        except (ApiError, _core.InvalidRequest, _core.GrammarError) as e:
            raise ValueError(f"{name}: {e}") from e
        except _core.CoreError as e:
            raise RuntimeError(str(e)) from e

    def _collect(self, running: dict[int, RequestOutput]) -> Generator[RequestOutput, None, None]:
        """Takes events until no request is left; cancels what is left where nobody wants more."""
        poll = select.poll()
        try:
            if running and self._core is not None:
                poll.register(self._core.fileno(), select.POLLIN)
            while running and self._core is not None:
                poll.poll(POLL_MS)
                for event in self._core.drain():
                    result = running.get(event.request)
                    if result is None:
                        continue
                    if isinstance(event.error, _core.GrammarError):
                        raise ValueError(f"sampling_params: {event.error}")
                    result.take(event)
                    if all(output.finish_reason for output in result.outputs):
                        result.finished = True
                        del running[event.request]
                    yield result
        finally:
            self._cancel(running)
