"""The fields of Ollama's bodies, as `openai/schema.py` has those of OpenAI's."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec

from llgtrt.openai.functions import Tool
from llgtrt.openai.schema import Unbounded, about


class CalledFunction(msgspec.Struct):
    """A function that was called. Its arguments are an object, not JSON text as in OpenAI's API."""

    name: str
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)


class ToolCall(msgspec.Struct):
    """A call in the history."""

    function: CalledFunction
    id: str | None = None


class Message(msgspec.Struct):
    """A message of the conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    thinking: str | None = None
    images: list[Any] | None = None
    tool_calls: list[ToolCall] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


SAMPLING = (
    *("temperature", "top_k", "top_p", "min_p", "seed", "stop"),
    *("repeat_penalty", "presence_penalty", "frequency_penalty"),
)
"""Options that chats have under the same name."""


class Options(msgspec.Struct):
    """`options`: sampling, and settings of a model that is loaded for the request."""

    num_predict: Annotated[int, msgspec.Meta(ge=-2, le=2**32 - 1)] | None = None
    temperature: float | None = None
    top_k: Unbounded | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    repeat_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repeat_last_n: Any = None
    typical_p: Any = None
    tfs_z: Any = None
    mirostat: Any = None
    mirostat_tau: Any = None
    mirostat_eta: Any = None
    penalize_newline: Any = None
    num_ctx: Any = None
    num_keep: Any = None
    num_batch: Any = None
    num_gpu: Any = None
    num_thread: Any = None
    main_gpu: Any = None
    use_mmap: Any = None
    use_mlock: Any = None
    numa: Any = None
    low_vram: Any = None
    f16_kv: Any = None

    refused: ClassVar[dict[str, tuple[Any, ...]]] = {
        "repeat_last_n": (-1,),
        "typical_p": (1, 1.0),
        "tfs_z": (1, 1.0),
        "mirostat": (0,),
        "penalize_newline": (True,),
    }
    """Options that are not supported and would change the answer, with the values that are accepted."""


class _Common(msgspec.Struct, kw_only=True):
    model: Annotated[str | None, about("One of the model's names, with or without `:latest`.")] = None
    format: Annotated[msgspec.Raw, about('`"json"`, or the JSON schema of the answer.')] = msgspec.field(
        default_factory=msgspec.Raw
    )
    options: Annotated[
        Options | None,
        about(
            "`num_predict`, `temperature`, `top_k`, `top_p`, `min_p`, `seed`, `stop`, `repeat_penalty`, "
            "`presence_penalty`, `frequency_penalty`. Options about loading a model have no effect."
        ),
    ] = None
    stream: Annotated[
        bool | None, about("Stream the answer, one JSON object in each line.", default=True)
    ] = None
    think: Annotated[bool | str | None, about("Whether the model thinks first, or how much.")] = None
    keep_alive: Annotated[Any, about("No effect: the model stays loaded.")] = None


class ChatBody(_Common, kw_only=True):
    """Body of `/api/chat`."""

    messages: Annotated[
        list[Message] | None, about("The conversation; without messages, nothing is generated.")
    ] = None
    tools: Annotated[list[Tool] | None, about("Up to 128 functions that the model may call.")] = None

    refused: ClassVar[dict[str, tuple[Any, ...]]] = {"logprobs": (False,), "top_logprobs": (0,)}


class GenerateBody(_Common, kw_only=True):
    """Body of `/api/generate`."""

    prompt: Annotated[str | None, about("The text; without one, nothing is generated.")] = None
    system: Annotated[str | None, about("The system message.")] = None
    suffix: Annotated[
        str | None, about("The text after the answer, for models with fill-in-the-middle tokens.")
    ] = None
    raw: Annotated[
        bool | None, about("Continue the prompt as it is, without the chat template.", default=False)
    ] = None

    refused: ClassVar[dict[str, tuple[Any, ...]]] = {
        "logprobs": (False,),
        "top_logprobs": (0,),
        "template": ("",),
        "context": ([],),
        "images": ([],),
    }


class ShowBody(msgspec.Struct):
    """Body of `/api/show`."""

    model: Annotated[str | None, about("One of the model's names, with or without `:latest`.")] = None
    name: Annotated[str | None, about("The older name of `model`.")] = None
    verbose: Annotated[Any, about("No effect.")] = None
