"""What the command line asks for: the target, its files, and the effective configuration."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypedDict

from llgtrt import _core, interpreter

TOY = "toy"
"""The weightless engine, as a target: `toy`, or `toy:` and options of the core's (`rust/src/exec/toy.rs`)."""


HIDDEN = "(hidden)"
"""What is shown for an API key."""


class StartError(Exception):
    """The server cannot start. The message is one line that says what to do; the exit code is 2."""


@dataclasses.dataclass(frozen=True)
class ServerSettings:
    """The ``server`` group of runtime.json; its documentation and defaults are in ``rust/src/config``."""

    host: str
    port: int
    served_model_name: str | None
    served_model_aliases: tuple[str, ...]
    api_keys: tuple[str, ...]
    """Those of the file and of the environment, too."""
    cors_origins: tuple[str, ...]
    ssl_certfile: str | None
    ssl_keyfile: str | None
    keep_alive: int
    chat_template: str | None
    tool_format: str | dict[str, Any]
    """A name, or the parts of a format."""
    reasoning_markers: tuple[str, ...] | None
    decision_prompts: dict[str, str | None]
    send_timeout: float
    grace_period: float
    request_timeout: float
    max_body_bytes: int
    unknown_fields: str
    access_log: str
    log_format: str
    page: bool
    engine_process: bool

    @staticmethod
    def from_group(group: dict[str, Any]) -> ServerSettings:
        """Takes the group as the core prints it, every key present."""
        names = [f.name for f in dataclasses.fields(ServerSettings)]
        values = {name: group[name] for name in names}
        if (group["ssl_certfile"] is None) != (group["ssl_keyfile"] is None):
            raise StartError("server.ssl_certfile and server.ssl_keyfile: give both, or neither")
        if HIDDEN in group["api_keys"]:
            raise StartError(
                f"server.api_keys: {HIDDEN} stands for a key that is not shown; write the key itself"
            )
        values["api_keys"] = (*group["api_keys"], *_more_keys(group["api_key_file"]))
        values |= {name: tuple(values[name]) for name in ("cors_origins", "served_model_aliases")}
        markers = group["reasoning_markers"]
        if markers is not None and len(markers) == 1:
            raise StartError("server.reasoning_markers: give the texts before and behind reasoning, or []")
        values["reasoning_markers"] = None if markers is None else tuple(markers)
        return ServerSettings(**values)


def _more_keys(file: str | None) -> list[str]:
    """Keys from the file, one in each line, and from the environment.

    Raises:
        StartError: the file cannot be read, or has none.
    """
    found = [os.environ.get("LLGTRT_API_KEY", "")]
    if file is not None:
        try:
            lines = Path(file).read_text(encoding="utf-8").split()
        except (OSError, UnicodeDecodeError) as e:
            raise StartError(f"server.api_key_file: {file} cannot be read ({e})") from e
        if not lines:
            raise StartError(f"server.api_key_file: {file} has no key; write one in each line")
        found += lines
    return [key for key in found if key]


def hidden(config: str) -> str:
    """The configuration as it may be shown: how many API keys there are, not which."""
    shown: dict[str, Any] = json.loads(config)
    shown["server"]["api_keys"] = [HIDDEN for _ in shown["server"]["api_keys"]]
    return json.dumps(shown)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Everything that starting a server needs."""

    target: str
    config: str
    """The effective configuration as JSON text, for the core."""
    server: ServerSettings
    responses_file: Path | None = None
    """Where responses are kept; none = in memory."""

    @property
    def model(self) -> str:
        """The model's name in the API."""
        if self.server.served_model_name:
            return self.server.served_model_name
        if self.is_toy:
            return TOY
        path = Path(self.target)
        # A file in the hub's cache is a link to one whose name is a hash.
        return path.stem if path.suffix == ".gguf" else path.resolve().name

    @property
    def names(self) -> tuple[str, ...]:
        """All names that requests may use for the model, its own first."""
        return tuple(dict.fromkeys((self.model, *self.server.served_model_aliases)))

    @property
    def sampling(self) -> dict[str, Any]:
        """What requests sample with where they say nothing, as far as it is said."""
        return given(json.loads(self.config)["sampling"])

    @property
    def folder(self) -> Path | None:
        """The engine folder, if the target is one."""
        path = Path(self.target)
        return path if not self.is_toy and path.is_dir() else None

    def child(self, wanted: bool) -> list[str] | None:
        """The engine process's command line, in the same Python; None = a thread."""
        log = ["--json-log"] if self.server.log_format == "json" else []
        return [*interpreter.command("llgtrt.engine_child"), *log] if wanted else None

    @property
    def is_toy(self) -> bool:
        """Whether there is no model."""
        return _is_toy(self.target)


def load(target: str, runtime_config: str | None, overrides: dict[str, Any]) -> Settings:
    """Reads the configuration: `overrides`, which are the flags, before the file, the file before defaults.

    Raises:
        StartError: the target or the file is missing, or the core refuses a key.
    """
    _check_there(target)
    file = _config_file(target, runtime_config)
    try:
        text = file.read_text(encoding="utf-8") if file else None
    except (OSError, UnicodeDecodeError) as e:
        raise StartError(f"{file}: cannot be read ({e}); check --runtime-config") from e
    try:
        config = _core.load_config(text, json.dumps(overrides))
    except _core.InvalidRequest as e:
        raise StartError(f"{file}: {e}" if file else str(e)) from e
    speculative = overrides.get("speculative", {})
    for name in given({key: speculative.get(key) for key in ("draft_model", "mlp_speculator")}).values():
        _check_there(name)
    config = _with_model_defaults(target, config)
    return Settings(target, config, ServerSettings.from_group(json.loads(config)["server"]))


def _check_there(name: str) -> None:
    """Refuses a model that cannot be read.

    Raises:
        StartError: it is missing, or may not be read.
    """
    if not _is_toy(name) and not os.access(name, os.R_OK):
        found = "may not be read" if os.path.lexists(name) else "no such engine folder or .gguf file"
        raise StartError(f"{name}: {found}; check the path (or use the target `{TOY}`)")


_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


def _with_model_defaults(target: str, config: str) -> str:
    """The configuration with what `generation_config.json` says where it is silent itself.

    Raises:
        StartError: that file cannot be read, or the core refuses a value.
    """
    known = json.loads(config)
    file = Path(target) / "generation_config.json"
    if _is_toy(target) or known["engine"]["generation_config"] == "none" or not file.is_file():
        return config
    try:
        said = json.loads(file.read_bytes())
        if not isinstance(said, dict):
            raise ValueError("not an object")
        sampling = {name: said.get(name) for name in _SAMPLING if known["sampling"][name] is None}
        server = {"default_max_tokens": said.get("max_new_tokens")}
        if known["server"]["default_max_tokens"] is not None:
            server = {}
        more = {"sampling": given(sampling), "server": given(server)}
        # Not from the file again: what has no effect in it would be logged twice.
        return _core.load_config(None, json.dumps(merged(known, more)))
    except (OSError, ValueError) as e:
        advice = "mend it, or set engine.generation_config to none"
        raise StartError(f"{file}: cannot be used ({e}); {advice}") from e


def merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Both, group by group; `more` comes first."""
    both = dict(base)
    for name, value in more.items():
        known = both.get(name)
        both[name] = {**known, **value} if isinstance(known, dict) and isinstance(value, Mapping) else value
    return both


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Those values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


NGRAM = "[ngram]"
"""The name of prompt lookup, where a draft model's could stand."""


def speculation(
    model: str | None, tokens: int | None, ngram_max: int | None, ngram_min: int | None
) -> dict[str, Any]:
    """The group `speculative` from the names that vLLM's users know; none of them leaves it as it is.

    As there, the fewest tokens compared are 1 where only the most are given.

    `model`: a draft model, an MLP speculator or `[ngram]`; `tokens`: most tokens drafted ahead; `ngram_max`
    and `ngram_min`: tokens compared in prompt lookup.
    """
    group: dict[str, Any] = {}
    if model == NGRAM:
        group["sources"] = ["forced", "prompt_lookup", "prediction", "grammar"]
    elif model is not None:
        group["mlp_speculator" if is_speculator(model) else "draft_model"] = model
    if tokens is not None:
        group["max_draft_len"] = tokens
    if ngram_max is not None and ngram_min is None:
        ngram_min = 1
    lookup = given({"max_ngram": ngram_max, "min_ngram": ngram_min})
    return group | ({"prompt_lookup": lookup} if lookup else {})


class Names(TypedDict, total=False):
    """What vLLM's users know, as keywords and as flags; None is as if it were not there."""

    tensor_parallel_size: int | None
    speculative_config: Mapping[str, Any] | None
    speculative_model: str | None
    speculative_draft_tensor_parallel_size: int | None
    speculative_disable_by_batch_size: int | None
    num_speculative_tokens: int | None
    ngram_prompt_lookup_max: int | None
    ngram_prompt_lookup_min: int | None
    max_model_len: int | None
    max_num_seqs: int | None
    gpu_memory_utilization: float | None
    enable_prefix_caching: bool | None
    use_v2_block_manager: bool | None
    dtype: str | None
    engine: str | None
    pipeline_parallel_size: int | None
    distributed_executor_backend: str | None
    engine_args: Mapping[str, Any] | None


def named(names: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration that `Names` say; other names are left alone.

    Raises:
        StartError: a value asks for what is not there; the message names it.
    """
    get = names.get
    if get("engine") == "vllm":
        return merged(named({**names, **dict.fromkeys(_VLLM)}), _of_vllm(get))
    for name in ("pipeline_parallel_size", "distributed_executor_backend", "engine_args"):
        if get(name) is not None:
            raise StartError(f"{name}: only vLLM has this; add --engine vllm, or leave it out")
    if get("dtype") not in (None, "auto"):
        raise StartError(f"dtype: {get('dtype')} is not what the file holds; leave it at auto")
    own = (
        "speculative_model",
        "num_speculative_tokens",
        "ngram_prompt_lookup_max",
        "ngram_prompt_lookup_min",
    )
    wanted = dict(get("speculative_config") or {})
    draft_size = wanted.pop("draft_tensor_parallel_size", None)
    parallel = {
        "tp_size": get("tensor_parallel_size"),
        "draft_tp_size": get("speculative_draft_tensor_parallel_size") or draft_size,
    }
    speculative = speculative_config(wanted) | speculation(*map(get, own))
    speculative |= given({"disable_by_batch_size": get("speculative_disable_by_batch_size")})
    plain = {
        "max_batch_size": get("max_num_seqs"),
        "enable_kv_cache_reuse": get("enable_prefix_caching"),
        "kv_cache_free_gpu_mem_fraction": get("gpu_memory_utilization"),
    }
    engine = given({"context": get("max_model_len"), "backend": get("engine")})
    groups = {"speculative": speculative, "engine": engine, "parallel": given(parallel)}
    return given(plain) | {name: group for name, group in groups.items() if group}


_VLLM = (
    "engine",
    "dtype",
    "speculative_config",
    "pipeline_parallel_size",
    "distributed_executor_backend",
    "engine_args",
)
"""Names that only vLLM has, or takes in its own way."""


def _of_vllm(get: Callable[[str], Any]) -> dict[str, Any]:
    """The configuration that the values of `_VLLM` say."""
    dtype = given({"dtype": None if get("dtype") == "auto" else get("dtype")})
    names = ("speculative_config", "pipeline_parallel_size", "distributed_executor_backend")
    group = given({name: get(name) for name in names})
    arguments = {**dtype, **(get("engine_args") or {})}
    return {
        "engine": {"backend": "vllm"},
        "vllm": group | ({"engine_args": arguments} if arguments else {}),
    }


_METHODS = {None, "ngram", "draft_model", "mlp_speculator"}


def speculative_config(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The group `speculative` from vLLM's `speculative_config`, its `draft_tensor_parallel_size` aside.

    Raises:
        StartError: it has a key or a value that is not known; the message names it.
    """
    rest = dict(wanted)
    method, model = rest.pop("method", None), rest.pop("model", None)
    if method not in _METHODS:
        known = ", ".join(sorted(name for name in _METHODS if name))
        raise StartError(f"speculative_config.method: {method} is not supported; there are {known}")
    names = ("num_speculative_tokens", "prompt_lookup_max", "prompt_lookup_min")
    group = speculation(NGRAM if method == "ngram" else model, *(rest.pop(name, None) for name in names))
    group |= given({"disable_by_batch_size": rest.pop("disable_by_batch_size", None)})
    if rest:
        raise StartError(f"speculative_config.{next(iter(rest))}: not a known key; leave it out")
    return group


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_speculator(folder: str) -> bool:
    """Whether the folder's `config.json` says that an MLP speculator lies there."""
    try:
        description = json.loads((Path(folder) / "config.json").read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(description, dict) and description.get("model_type") == "mlp_speculator"


def _config_file(target: str, runtime_config: str | None) -> Path | None:
    if runtime_config is not None:
        return Path(runtime_config)
    file = Path(target) / "runtime.json"
    return file if not _is_toy(target) and file.is_file() else None


def _is_toy(target: str) -> bool:
    return target.partition(":")[0] == TOY
