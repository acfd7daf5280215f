"""Reads request bodies: which fields are accepted, refused and ignored.

Ranges are checked by the core (`rust/src/request.rs`), types here. A field of OpenAI's API or of another
server's that would change the answer and is not supported is refused by name; unknown ones are ignored, and
the log and a header of the answer say so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Set
from typing import Any, TypeVar

import msgspec

from llgtrt.openai import allowed, hints
from llgtrt.openai.errors import ApiError, invalid

UNSUPPORTED: dict[str, tuple[Any, ...]] = {
    "modalities": (["text"],),
    "audio": (),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "reasoning_effort": ("none",),
    "web_search_options": (),
    "moderation": (),
    "suffix": ("",),
    "max_completion_tokens": (),
    "prediction": (),
    "echo": (False,),
    "chat_template": (),
    "add_special_tokens": (True,),
    "no_stop_trim": (False,),
    "logits_processors": ([],),
    "use_beam_search": (False,),
    "length_penalty": (1, 1.0),
    "early_stopping": (False,),
    "documents": ([],),
    "prefix": ("",),
    "nvext": ({},),
    "spaces_between_special_tokens": (True,),
    "detokenize": (True,),
    "return_tokens_as_token_ids": (False,),
    "top_a": (0, 0.0),
    "tfs": (1, 1.0),
    "tfs_z": (1, 1.0),
    "typical_p": (1, 1.0),
    "typ_p": (1, 1.0),
    "banned_strings": ([],),
    "banned_tokens": ([],),
    "dry_multiplier": (0, 0.0),
    "xtc_probability": (0, 0.0),
    "mirostat": (0,),
    "dynatemp_range": (0, 0.0),
    "top_n_sigma": (-1, -1.0),
    "samplers": (),
    "smoothing_factor": (0, 0.0),
    "epsilon_cutoff": (0, 0.0),
    "eta_cutoff": (0, 0.0),
    "no_repeat_ngram_size": (0,),
    "container": (),
    "mcp_servers": ([],),
    "thread": (),
    "speed": ("standard",),
    "lora": ([],),
    "lora_path": (),
    "custom_logit_processor": (),
    "stop_regex": (),
    "input_ids": (),
    "mm_processor_kwargs": (),
    "kv_transfer_params": (),
}
"""Fields of OpenAI's API and of other servers' that change the answer and are refused, and their values that
change nothing (null is always one)."""

FOREIGN_GRAMMARS = frozenset(
    {
        "guided_decoding_backend",
    }
)
"""Constraints in forms that are not read: to ignore one would be to answer without it."""

NO_EFFECT = frozenset(
    {
        *("user", "metadata", "safety_identifier", "store", "request_id", "id_slot"),
        *("prompt_cache_key", "prompt_cache_retention", "prompt_cache_options"),
    }
)
"""Fields that are accepted and have no effect on the text."""

INEFFECTIVE = frozenset({"verbosity", "context_management"})
"""Fields that no model here can follow. They are accepted, and the answer says that they had no effect."""

_PLACE = re.compile(r" - at `(?:key in `?)?\$\.?(.*?)`$")

Body = TypeVar("Body", bound=msgspec.Struct)


def parse(
    body: bytes, kind: type[Body], unknown: str = "refuse_known", foreign: Set[str] = frozenset()
) -> Body:
    """Reads a body; `unknown`: `server.unknown_fields`; `foreign`: fields of other pages that are refused.

    Raises:
        ApiError: it is not JSON, a field has another type, or asks for what is not supported.
    """
    try:
        body.decode()
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        _check_fields(fields, kind, unknown, foreign)
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as e:
        raise _bad_type(str(e), kind) from e
    except (msgspec.DecodeError, RecursionError) as e:
        raise invalid(None, f"the body is not valid JSON: {_why(body, e)}", "invalid_json") from e
    except UnicodeDecodeError as e:
        raise invalid(None, f"the body is not valid UTF-8: {e.reason}", "invalid_utf8") from e


def _check_fields(fields: dict[str, msgspec.Raw], kind: type[Body], unknown: str, foreign: Set[str]) -> None:
    known = kind.__struct_fields__
    unsupported = UNSUPPORTED | getattr(kind, "refused", {})
    strange: list[str] = []
    for name, raw in fields.items():
        if name in known or name in NO_EFFECT or bytes(raw) == b"null":
            continue
        if name in foreign:
            # Without `param`: that may be this page's name for something else.
            raise invalid(
                None, f"{name}: a field of another page; leave it out here", "unsupported_parameter"
            )
        if name in FOREIGN_GRAMMARS:
            raise invalid(
                name, f"{name}: not a field of this API; use response_format", "unsupported_parameter"
            )
        if name in INEFFECTIVE:
            hints.ineffective(name)
        elif name in unsupported and unknown != "ignore":
            if msgspec.json.decode(raw) not in unsupported[name]:
                raise invalid(
                    name, f"{name}: this value is not supported; leave the field out", "unsupported_parameter"
                )
        elif unknown == "refuse":
            raise invalid(f"{name:.64}", f"{name:.64}: not a field of this API", "unknown_parameter")
        else:
            strange.append(name)
    hints.unknown_fields(strange, known)


def _why(body: bytes, error: Exception) -> str:
    """Why a body is not JSON. Python's parser says it more clearly than msgspec's."""
    try:
        json.loads(body)
    except json.JSONDecodeError as e:
        return str(e)
    except RecursionError:
        return "it is nested too deeply"
    return str(error)


def _bad_type(message: str, kind: type[msgspec.Struct]) -> ApiError:
    place = _PLACE.search(message)
    missing = re.search(r"missing required field `(\w+)`", message)
    path = [place[1]] if place and place[1] else []
    param = ".".join([*path, missing[1]] if missing else path) or None
    text = _PLACE.sub("", message)
    known = allowed.values(kind, param) if param and text.startswith("Invalid") else []
    if known:
        text += f"; write one of {', '.join(known)}"
    return invalid(param, f"{param}: {text}" if param else f"the body: {text}")
