"""The handlers of OpenAI's API."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from llgtrt import __version__, _core
from llgtrt.engine import AsyncEngine, Generation
from llgtrt.openai import infill, schema, sse, translate
from llgtrt.openai.body import parse
from llgtrt.openai.chat import Model, ready
from llgtrt.openai.decisions.places import Places, places
from llgtrt.openai.errors import ApiError, from_core, invalid, unavailable
from llgtrt.openai.functions import Tool
from llgtrt.openai.incoming import read_body
from llgtrt.openai.render import CompletionRender, Whole, Writer
from llgtrt.openai.render_chat import ChatRender
from llgtrt.openai.reply import Reply
from llgtrt.prompt import Vocabulary, strings
from llgtrt.settings import Settings

T = TypeVar("T")

LARGE = 10_000
"""Bytes from which a body is worth a thread of its own: other requests go on meanwhile."""

MOST_COPIES = 64 * 1024 * 1024
"""Bytes that the prompts of one body may have together of what they share: each has its own copy."""

_SILENCE = 10.0
"""Seconds without news after which a stream begins all the same."""


@dataclasses.dataclass
class Api:
    """What the handlers share."""

    settings: Settings
    engine: AsyncEngine
    vocabulary: Vocabulary
    model: Model | None = None
    """How chats are written; None where there is no template, or not yet."""
    loaded: bool = False
    """Whether the engine was opened and `model` is its model's."""
    created: int = dataclasses.field(default_factory=lambda: int(time.time()))
    _fingerprint: tuple[dict[str, Any], str] | None = None
    """Of these facts of the engine."""

    @functools.cached_property
    def _config(self) -> dict[str, Any]:
        """The effective configuration, read once."""
        config: dict[str, Any] = msgspec.json.decode(self.settings.config)
        return config

    @functools.cached_property
    def sampling(self) -> dict[str, Any]:
        """What requests sample with where they say nothing."""
        return self.settings.sampling

    def check_model(self, model: str | None) -> None:
        """Refuses a request for another model.

        Raises:
            ApiError: 404.
        """
        if model is not None and model not in self.settings.names:
            message = f"the model `{model:.200}` does not exist; this server has `{self.settings.model}`"
            raise ApiError(message, "model", "model_not_found")

    def check_loaded(self) -> None:
        """Refuses a request that comes too early.

        Raises:
            ApiError: 503.
        """
        if not self.loaded:
            raise unavailable("the model is being loaded; try again soon", "loading")

    def fingerprint(self) -> str:
        """Changes with anything that may change an answer.

        Raises:
            EngineClosed: the model has not been loaded yet.
        """
        info = self.engine.info()
        if self._fingerprint is None or self._fingerprint[0] is not info:
            names = ("promise", "summary", "weights", "limits")
            template = self.model.template.source if self.model else None
            facts = f"{__version__} {self.settings.model} {[info[name] for name in names]} {template}"
            kind = "synthetic" if self._config["speculative"]["synthetic_acceptance"] else "fp"
            self._fingerprint = info, f"{kind}_" + hashlib.sha256(facts.encode()).hexdigest()[:12]
        return self._fingerprint[1]

    def check_count(self, prompts: int, each: int, name: str = "n") -> None:
        """Refuses what even an idle server would not take: to try again would not help.

        `name`: of the field that says how many choices each prompt has.

        Raises:
            ApiError: 400.
        """
        queue: int = self._config["max_queue_size"]
        most = queue + self.engine.info()["max_running"]
        if queue and prompts * each > most:
            name = "prompt" if prompts > 1 else name
            message = (
                f"{name}: {prompts * each} choices at once; this server runs and queues {most}: send fewer"
            )
            raise invalid(name, message)

    def check_length(self, characters: int, body: schema.Common, param: str) -> None:
        """Refuses a text that cannot fit, before it is encoded: a token has so many bytes at most.

        Raises:
            ApiError: 400.
        """
        most = self.engine.info()["limits"]["max_prompt"]
        longest = self.vocabulary.longest()
        cut = param != "prediction" and body.truncate_prompt_tokens is not None
        if not cut and characters > most * longest:
            message = f"{param}: has {characters} characters; at most {most} tokens fit; shorten it"
            raise invalid(param, message, "context_length_exceeded")

    def core_request(self, body: schema.Common, client: int, prompts: int, reply: Reply | None = None) -> str:
        """The core's request without its prompt, for as many prompts; `reply`: what a chat's answer may be.

        Raises:
            ApiError: 400; it is too long to stand beside each of them.
        """
        text = translate.prediction(body)
        self.check_length(len(text), body, "prediction")
        expected = translate.draft_tokens(body, prompts) or self.vocabulary.text(text)
        core = translate.core_request(body, client, expected, self.sampling, reply)
        if len(core) * prompts > MOST_COPIES:
            message = f"prompt: {prompts} prompts with {len(core)} bytes of options each; send fewer at once"
            raise invalid("prompt", message)
        return core

    def model_card(self, name: str) -> dict[str, object]:
        """The model under one of its names, as `/v1/models` lists it."""
        context = self.engine.info()["limits"]["context"]
        card = {"id": name, "object": "model", "created": self.created, "owned_by": "llgtrt"}
        return {**card, "max_model_len": context}


@dataclasses.dataclass(frozen=True)
class Work:
    """A body made ready for the engine."""

    body: schema.Common
    prompts: Sequence[Sequence[int]]
    core: str
    """The core's request without its prompt."""
    writer: Writer
    events: Callable[[Generation], sse.Events]
    """Those of the answer as a stream."""
    places: Places | None = None
    """Where the client asks for probabilities."""

    async def look(self, api: Api, choices: Sequence[Whole]) -> None:
        """Adds to whole choices what has to be computed."""
        if self.places is not None:
            await self.places.tell(api.engine, api.vocabulary, choices)


async def chat_completions(request: Request) -> Response:
    """`POST /v1/chat/completions`."""
    return await answer(request, chat)


async def completions(request: Request) -> Response:
    """`POST /v1/completions`."""
    return await answer(request, completion)


def chat(api: Api, data: bytes, client: int) -> Work:
    """Reads a body of `/v1/chat/completions`; `client`: a number for its API key.

    Raises:
        ApiError: it is refused.
    """
    body = parse(data, schema.ChatRequest, api.settings.server.unknown_fields)
    prompt, reply, core = conversation(api, body, client)
    render = ChatRender(api.settings.model, api.fingerprint(), api.vocabulary, translate.logprobs(body))
    render.answer_in(reply)
    asked = places(body, core, [prompt], reply.parts())
    return Work(
        body, [prompt], core, render, lambda going: sse.Stream(going, render, body.stream_options), asked
    )


def conversation(api: Api, body: schema.ChatRequest, client: int) -> tuple[Sequence[int], Reply, str]:
    """The prompt's tokens, what the answer may be, and the core's request without its prompt.

    Raises:
        ApiError: the request is refused.
    """
    api.check_model(body.model)
    api.check_loaded()
    api.check_count(1, translate.choices(body))
    prompt, reply = chat_prompt(api, body)
    core = api.core_request(body, client, 1, reply)
    return cut(api, body, [prompt])[0], reply, core


def completion(api: Api, data: bytes, client: int) -> Work:
    """Reads a body of `/v1/completions`; `client`: a number for its API key.

    Raises:
        ApiError: it is refused.
    """
    return completed(api, parse(data, schema.CompletionRequest, api.settings.server.unknown_fields), client)


def completed(api: Api, body: schema.CompletionRequest, client: int) -> Work:
    """Makes a completion ready for the engine.

    Raises:
        ApiError: it is refused.
    """
    api.check_model(body.model)
    translate.check_completion(body)
    wanted = translate.prompts(body)
    infill.check(body, wanted)
    api.check_loaded()
    render = CompletionRender(api.settings.model, api.fingerprint(), api.vocabulary, translate.logprobs(body))
    count = len(wanted.prompts)
    render.best(translate.given(body), translate.choices(body))
    if body.skip_special_tokens is False:
        render.show_special()
    api.check_count(count, translate.choices(body), "n" if body.best_of is None else "best_of")
    core = api.core_request(body, client, count)
    if isinstance(wanted, translate.Texts):
        after = body.suffix or ""
        for text in wanted.prompts:
            api.check_length(len(text) + len(after), body, "prompt")
        prompts = cut(api, body, [infill.written(api.vocabulary, text, after) for text in wanted.prompts])
    else:
        prompts = cut(api, body, wanted.prompts)
    if body.echo:
        alone = translate.only_prompt(body)
        texts: Sequence[str]
        if isinstance(wanted, translate.Texts) and body.truncate_prompt_tokens is None:
            texts = wanted.prompts
        else:
            texts = decode(api, prompts)
        render.echo(texts, prompts, translate.given(body), alone)
    asked = places(body, core, prompts)
    return Work(
        body, prompts, core, render, lambda going: sse.Stream(going, render, body.stream_options), asked
    )


async def models(request: Request) -> Response:
    """`GET /v1/models`."""
    api: Api = request.app.state.api
    api.check_loaded()
    return json_response({"object": "list", "data": [api.model_card(name) for name in api.settings.names]})


async def model(request: Request) -> Response:
    """`GET /v1/models/{model}`."""
    api: Api = request.app.state.api
    name: str = request.path_params["model"]
    api.check_loaded()
    api.check_model(name)
    return json_response(api.model_card(name))


def chat_prompt(api: Api, body: schema.ChatRequest) -> tuple[list[int], Reply]:
    """The prompt's tokens, and what the answer may be.

    Raises:
        ApiError: the model has no template, or its template refuses the messages.
    """
    messages = translate.messages(body)
    if api.model is None:
        raise invalid(
            "messages", "messages: this model has no chat template; the server needs --chat-template"
        )
    tools = [bytes(tool.function.parameters) for tool in body.tools or () if isinstance(tool, Tool)]
    length = sum(map(len, strings(messages))) + sum(map(len, tools))
    api.check_length(length, body, "messages")
    return ready(api.model, body, messages)


def cut(api: Api, body: schema.Common, prompts: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
    """The prompts' last tokens, where the client wants no more of them."""
    context = api.engine.info()["limits"]["context"]
    return [translate.cut(body, prompt, context) for prompt in prompts]


def decode(api: Api, prompts: Sequence[Sequence[int]]) -> Sequence[str]:
    """The prompts' texts, for `echo`.

    Raises:
        ApiError: one is too long, or a token does not exist.
    """
    limits = api.engine.info()["limits"]
    longest = max(map(len, prompts))
    if longest > limits["max_prompt"]:
        message = f"prompt: has {longest} tokens; at most {limits['max_prompt']} fit; shorten it"
        raise invalid("prompt", message, "context_length_exceeded")
    if max(map(max, prompts)) >= limits["n_vocab"]:
        raise invalid("prompt", "prompt: a token id is larger than the vocabulary")
    return [api.vocabulary.decode(prompt) for prompt in prompts]


async def made(request: Request, read: Callable[[Api, bytes, int], T]) -> T:
    """What `read` makes of the body, beside the event loop where there is much to do."""
    api: Api = request.app.state.api
    what = (api, await read_body(request, api.settings.server), request.scope["client_number"])
    return read(*what) if len(what[1]) < LARGE else await asyncio.to_thread(read, *what)


async def answer(request: Request, read: Callable[[Api, bytes, int], Work]) -> Response:
    """Reads the body, and answers it."""
    return await answered(request, await made(request, read))


async def answered(request: Request, work: Work) -> Response:
    """Generates, and answers in one piece or as a stream, which begins with the engine's first event."""
    api: Api = request.app.state.api
    body = work.body
    if work.places:
        work.places.check(api.engine.info()["limits"]["lacks"])
    work.writer.with_prompt = body.prompt_logprobs is not None
    work.writer.named(request.scope["request_id"])
    try:
        generation = await begun(api, work)
        request.scope["generation"] = generation
        finish = watch(request, generation)
        try:
            if not body.stream:
                whole = await sse.whole(generation, work.writer, functools.partial(work.look, api))
                return Response(whole, media_type="application/json")
            # The status waits for the first news, which may be an error, but not until a proxy gives up.
            first = await generation.next() if await generation.news(_SILENCE) else []
            events = work.events(generation)
            parts = events.events(first)
            response, finish = sse.EventResponse(parts, finish, events.media_type), lambda: None
            return response
        finally:
            finish()
    except _core.CoreError as e:
        raise from_core(e, translate.renamed(body)) from e


async def begun(api: Api, work: Work) -> Generation:
    """Submits it.

    Raises:
        CoreError: as `AsyncEngine.submit` does.
    """
    body = work.body
    cores = (translate.with_prompt(work.core, prompt) for prompt in work.prompts)
    generation = await api.engine.submit(cores, translate.choices(body))
    work.writer.generation = generation
    generation.names = lambda: translate.renamed(body)
    generation.keeps_tokens = work.places is not None
    generation.timed = bool(body.timings_per_token)
    generation.report = body.speculative is not None and bool(body.speculative.report)
    return generation


async def gone(request: Request) -> None:
    """Waits until the client goes away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def watch(request: Request, generation: Generation) -> Callable[[], None]:
    """Cancels the generation when the client goes away. The result is to be called when the answer ends."""

    async def wait() -> None:
        await gone(request)
        generation.cancel()

    task = asyncio.create_task(wait())

    def finish() -> None:
        task.cancel()
        generation.cancel()

    return finish


def json_response(value: object) -> Response:
    """A JSON body."""
    return Response(msgspec.json.encode(value), media_type="application/json")
