"""Bodies to the core's requests (`rust/src/request.rs`, `rust/grammar/src/spec.rs`)."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from llgtrt.openai import schema
from llgtrt.openai.constraint import constraint, field
from llgtrt.openai.errors import invalid
from llgtrt.openai.reply import Reply
from llgtrt.openai.tools import calls

_READ = {name: (meta.extra or {}).get("core") for name, meta in schema.metas(schema.Common).items()}
_SAMPLING = tuple(name for name, core in _READ.items() if core == "sampling")
_SAME = tuple(name for name, core in _READ.items() if core == "same")
"""Fields that the core reads under the same name."""
_TIERS = {"flex": 1, "priority": -1}
"""Priorities of tiers; the others are 0."""
_LONGEST_SALT = 1024
_MOST_PROMPTS = 2048


@dataclasses.dataclass(frozen=True)
class Texts:
    """Prompts of `/v1/completions` as text."""

    prompts: Sequence[str]


@dataclasses.dataclass(frozen=True)
class Tokens:
    """Prompts of `/v1/completions` as token ids."""

    prompts: Sequence[Sequence[int]]


def messages(body: schema.ChatRequest) -> list[dict[str, Any]]:
    """The messages as chat templates know them: `role`, `content`, and what else they have."""
    if not body.messages:
        raise invalid("messages", "messages: must have at least one")
    made = [_message(m, f"messages[{i}]") for i, m in enumerate(body.messages)]
    for i, message in enumerate(made):
        if message["role"] == "tool" and not any("tool_calls" in before for before in made[:i]):
            at = f"messages[{i}]"
            raise invalid(at, f"{at}: is the result of a call, but no message before it has tool_calls")
    return made


def _message(message: schema.Message, at: str) -> dict[str, Any]:
    if message.audio:
        raise invalid(f"{at}.audio", f"{at}.audio: not supported", "unsupported_parameter")
    if message.prefix:
        raise invalid(
            f"{at}.prefix", f"{at}.prefix: not supported; use continue_final_message", "unsupported_parameter"
        )
    content = message.content if message.content is not None else message.refusal
    called = calls(message, at)
    if content is None and called:
        content = ""
    if content is None:
        raise invalid(f"{at}.content", f"{at}.content: must be a string or a list of text parts")
    if not isinstance(content, str):
        content = "".join(_part(p, f"{at}.content[{i}]") for i, p in enumerate(content))
    more = {name: getattr(message, name) for name in ("name", "tool_call_id", "reasoning_content")}
    more = {name: value for name, value in more.items() if value is not None}
    if message.role == "function":
        # The older name; its calls have no ids.
        return {"tool_call_id": "", **more, "role": "tool", "content": content}
    return {"role": message.role, "content": content, **more, **called}


def _part(part: schema.Part, at: str) -> str:
    if part.type not in ("text", "refusal"):
        raise invalid(
            f"{at}.type", f"{at}.type: {part.type} is not supported, only text is", "unsupported_parameter"
        )
    text = part.text if part.type == "text" else part.refusal
    if text is None:
        raise invalid(f"{at}.{part.type}", f"{at}.{part.type}: missing")
    return text


def prompts(body: schema.CompletionRequest) -> Texts | Tokens:
    """What is to be completed, in one of two forms."""
    prompt = body.prompt
    if isinstance(prompt, str):
        return Texts([prompt])
    if (
        isinstance(prompt, list)
        and 0 < len(prompt) <= _MOST_PROMPTS
        and all(isinstance(p, str) for p in prompt)
    ):
        return Texts(prompt)
    if _is_tokens(prompt):
        return Tokens([prompt])
    if isinstance(prompt, list) and 0 < len(prompt) <= _MOST_PROMPTS and all(_is_tokens(p) for p in prompt):
        return Tokens(prompt)
    raise invalid(
        "prompt", f"prompt: must be a string, token ids, or a list of up to {_MOST_PROMPTS} of either"
    )


def _is_tokens(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(t) is int and 0 <= t < 2**32 for t in value)


def prediction(body: schema.Common) -> str:
    """The text that the client expects; empty where it said nothing."""
    wanted = body.prediction if isinstance(body, schema.ChatRequest) else None
    if wanted is None:
        return ""
    if isinstance(wanted.content, str):
        return wanted.content
    return "".join(_part(p, f"prediction.content[{i}]") for i, p in enumerate(wanted.content))


def draft_tokens(body: schema.Common, prompts: int) -> Sequence[int]:
    """The output that the client drafted itself, as token ids; empty where it did not.

    Raises:
        ApiError: it is there beside `prediction`, or for several prompts.
    """
    drafted = (body.speculative.draft_tokens if body.speculative else None) or ()
    if drafted and prediction(body):
        raise invalid("prediction", "prediction: excludes speculative.draft_tokens; leave one out")
    if drafted and prompts > 1:
        raise invalid(
            "speculative.draft_tokens", "speculative.draft_tokens: is of one prompt; send the prompts apart"
        )
    return drafted


def core_request(
    body: schema.Common,
    client: int = 0,
    expected: Sequence[int] = (),
    defaults: Mapping[str, Any] | None = None,
    reply: Reply | None = None,
) -> str:
    """The core's request without its prompt, as JSON: several prompts share it.

    `client` stands for the API key, `expected` is the prediction, `defaults` are for sampling; `reply` is
    what a chat's answer may be.
    """
    request = {
        "max_tokens": max_tokens(body),
        "sampling": {**(defaults or {}), **_sampling(body)},
        "stop": [body.stop] if isinstance(body.stop, str) else body.stop or [],
        "logprobs": logprobs(body),
        "grammar": constraint(body) if reply is None else reply.core(),
        "speculative": _speculative(body.speculative),
        "prediction": expected,
        "client": client,
        "priority": priority(body),
        "cache_salt": salt(body.cache_salt),
    }
    request |= {name: value for name in _SAME if (value := getattr(body, name)) is not None}
    if choices(body) != given(body):
        # Which are best is told by log-probabilities.
        request |= {"n": choices(body), "logprobs": logprobs(body) or 0}
    request["prompt_logprobs"] = prompt_logprobs(body)
    request["origins"] = bool(body.stream_options and body.stream_options.include_token_origin)
    return msgspec.json.encode(request).decode()


def with_prompt(core: str, prompt: Sequence[int]) -> str:
    """The core's request with its prompt in it."""
    return f'{{"prompt":{msgspec.json.encode(prompt).decode()},{core[1:]}'


def _speculative(wanted: schema.Speculative | None) -> dict[str, Any]:
    names = ("enabled", "max_draft_len", "sources", "acceptance")
    values = {name: getattr(wanted, name, None) for name in names}
    if values["acceptance"] == "tokens":
        values["acceptance"] = "exact"  # the same on an engine that gives logits
    return {name: value for name, value in values.items() if value is not None}


def given(body: schema.Common) -> int:
    """Choices per prompt that the answer has."""
    return 1 if body.n is None else body.n


def choices(body: schema.Common) -> int:
    """Choices per prompt that are made."""
    best = body.best_of if isinstance(body, schema.CompletionRequest) else None
    return given(body) if best is None else best


def max_tokens(body: schema.Common) -> int | None:
    """Most tokens per choice; none = the server's default."""
    most = 1 if only_prompt(body) else _most_tokens(body)
    return None if most == -1 else most


def _most_tokens(body: schema.Common) -> int | None:
    newer = body.max_completion_tokens if isinstance(body, schema.ChatRequest) else None
    named = (newer, body.max_tokens, body.n_predict)
    return next((count for count in named if count is not None), None)


def only_prompt(body: schema.Common) -> bool:
    """Whether the prompt alone is wanted back, `max_tokens` 0 with `echo`; one token is drawn and dropped."""
    return isinstance(body, schema.CompletionRequest) and bool(body.echo) and _most_tokens(body) == 0


def priority(body: schema.Common) -> int:
    """How urgent it is: lower first."""
    return _TIERS.get(body.service_tier or "", 0) if body.priority is None else body.priority


def salt(text: str | None) -> int:
    """A number for the salt; 0 for none.

    Raises:
        ApiError: it is empty or too long.
    """
    if text is None:
        return 0
    if not 0 < len(text) <= _LONGEST_SALT:
        raise invalid("cache_salt", f"cache_salt: must have 1 to {_LONGEST_SALT} characters")
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") | 1


def cut(body: schema.Common, prompt: Sequence[int], context: int) -> Sequence[int]:
    """The prompt's last tokens, where the client wants no more of them.

    `context`: tokens that prompt and output may have.

    Raises:
        ApiError: it wants none.
    """
    most = body.truncate_prompt_tokens
    if most is None:
        return prompt
    if most == 0:
        raise invalid("truncate_prompt_tokens", "truncate_prompt_tokens: must be at least 1, or -1")
    return prompt[-(max(context - (max_tokens(body) or 1), 1) if most == -1 else most) :]


def template_options(body: schema.ChatRequest) -> dict[str, Any]:
    """The variables of the chat template besides the messages.

    Raises:
        ApiError: fields that exclude each other, or a variable that is not the client's.
    """
    if body.continue_final_message and body.add_generation_prompt:
        message = "continue_final_message: excludes add_generation_prompt; leave one out"
        raise invalid("continue_final_message", message)
    own = body.chat_template_kwargs or {}
    for name in own:
        if name in _RESERVED or name.endswith("_token"):
            raise invalid("chat_template_kwargs", f"chat_template_kwargs: {name:.40} is the server's to set")
    wants = body.add_generation_prompt is not False
    thinks = body.enable_thinking
    if body.reasoning_effort is not None:
        own = {**own, "reasoning_effort": body.reasoning_effort}
        thinks = body.reasoning_effort != "none" if thinks is None else thinks
    if thinks is not None:
        own = dict.fromkeys(THINKING, thinks) | own
    told = _documents(body)
    own = {name: value for name, value in own.items() if name != "documents"}
    if told:
        own["documents"] = told
    return own | {
        "add_generation_prompt": wants,
        "continue_final_message": bool(body.continue_final_message),
    }


def _documents(body: schema.ChatRequest) -> list[dict[str, Any]]:
    """The documents, which may stand among the variables of the chat template, too.

    Raises:
        ApiError: they are there twice, or are no objects.
    """
    at = "chat_template_kwargs.documents"
    own = (body.chat_template_kwargs or {}).get("documents") or []
    if body.documents and own:
        raise invalid(at, f"{at}: excludes documents; leave one out")
    if not isinstance(own, list) or not all(isinstance(one, dict) for one in own):
        raise invalid(at, f"{at}: must be a list of objects")
    return body.documents or own


THINKING = ("enable_thinking", "thinking")
"""Variables of chat templates that say whether the model reasons."""


def thinking_budget(body: schema.ChatRequest) -> int | None:
    """Most tokens of reasoning; none = as many as there is room for."""
    named = (body.thinking_budget, body.thinking_token_budget, body.thinking_budget_tokens)
    most = next((count for count in named if count is not None), None)
    return None if most == -1 else most


_RESERVED = ("messages", "tools", "add_generation_prompt", "continue_final_message")


def logprobs(body: schema.Common) -> int | None:
    """Alternatives per token, or none without log-probabilities.

    Raises:
        ApiError: `top_logprobs` without `logprobs`.
    """
    if isinstance(body, schema.ChatRequest):
        if body.logprobs:
            return body.top_logprobs or 0
        if body.top_logprobs:
            raise invalid("top_logprobs", "top_logprobs: needs logprobs to be true")
        return None
    if not isinstance(body, schema.CompletionRequest) or body.logprobs is None:
        return None
    return body.logprobs


def prompt_logprobs(body: schema.Common) -> int | None:
    """Alternatives per token of the prompt, or none without log-probabilities of it.

    Raises:
        ApiError: they are wanted in a stream.
    """
    echoed = isinstance(body, schema.CompletionRequest) and body.echo and body.logprobs is not None
    own = body.logprobs if echoed and isinstance(body, schema.CompletionRequest) else None
    wanted = body.prompt_logprobs if body.prompt_logprobs is not None else own
    if wanted is not None and body.stream:
        name = "prompt_logprobs" if body.prompt_logprobs is not None else "echo"
        raise invalid(
            name, f"{name}: log-probabilities of the prompt do not come in a stream; leave stream out"
        )
    return max(wanted, own or 0) if wanted is not None else None


def check_completion(body: schema.CompletionRequest) -> None:
    """Refuses `best_of` that contradicts `n`, or what a stream can be.

    Raises:
        ApiError: so it does.
    """
    made, wanted = choices(body), given(body)
    if wanted < 1:
        raise invalid("n", "n: must be at least 1")
    if made < wanted:
        raise invalid("best_of", f"best_of: must be at least n, which is {wanted}")
    if body.stream and made > wanted:
        raise invalid("best_of", "best_of: which are best is known at the end; in a stream it must be n")


def renamed(body: schema.Common) -> dict[str, str]:
    """The client's names of what the core names otherwise."""
    names = {"grammar": field(body)}
    if body.speculative and body.speculative.draft_tokens:
        names["prediction"] = "speculative.draft_tokens"
    if isinstance(body, schema.CompletionRequest) and body.best_of is not None:
        names["n"] = "best_of"
    if not isinstance(body, schema.ChatRequest):
        return names | {"top_logprobs": "logprobs"}
    names["prompt"] = "messages"
    return names | ({"max_tokens": "max_completion_tokens"} if body.max_completion_tokens is not None else {})


def _sampling(body: schema.Common) -> dict[str, Any]:
    sampling = {name: getattr(body, name) for name in _SAMPLING if getattr(body, name) is not None}
    if body.repeat_penalty is not None:
        sampling.setdefault("repetition_penalty", body.repeat_penalty)
    if body.top_k is not None:
        sampling["top_k"] = max(body.top_k, 0)
    if body.logit_bias:
        sampling["logit_bias"] = {str(_token(key)): value for key, value in body.logit_bias.items()}
    if body.seed is not None and body.seed != -1:
        sampling["seed"] = body.seed % 2**64
    return sampling


def _token(key: str) -> int:
    if not (key.isascii() and key.isdigit() and len(key) < 11 and int(key) < 2**32):
        raise invalid("logit_bias", f"logit_bias: {key:.40} is not a token id")
    return int(key)
