"""What the plug-in touches of vLLM, by the names and parameters of vLLM 0.32.0, with little behind them."""

from __future__ import annotations

import abc
import enum
import importlib.machinery
import json
import types
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np


class VLLMValidationError(Exception):
    def __init__(self, message: str, *, parameter: str | None = None, value: Any = None) -> None:
        super().__init__(message)
        self.parameter = parameter


@dataclass
class StructuredOutputsParams:
    json: Any = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    structural_tag: str | None = None
    _backend: str | None = field(default=None, init=False)
    _backend_was_auto: bool = field(default=False, init=False)


class SamplingParams:
    def __init__(self, max_tokens: int | None = None, stops: Sequence[int] = (), **constraint: Any) -> None:
        self.max_tokens = max_tokens
        self.structured_outputs = StructuredOutputsParams(**constraint) if constraint else None
        self.all_stop_token_ids = set(stops)

    def _validate_structured_outputs(
        self, model_config: Any, structured_outputs_config: Any, tokenizer: Any
    ) -> None:
        """XGrammar refuses `multipleOf`; guidance takes that, but no `patternProperties`."""
        constraint = self.structured_outputs
        if constraint is None:
            return
        text = json.dumps(constraint.json)
        if constraint.choice:
            constraint.grammar, constraint.choice = "root ::= " + json.dumps(constraint.choice[0]), None
        if "patternProperties" in text or constraint.regex == "(":
            raise VLLMValidationError("not supported by vLLM")
        constraint._backend = "guidance" if "multipleOf" in text else "xgrammar"
        constraint._backend_was_auto = True


class StructuredOutputOptions(enum.Enum):
    JSON = 1
    JSON_OBJECT = 2
    REGEX = 3
    GRAMMAR = 4
    CHOICE = 5
    STRUCTURAL_TAG = 6


class StructuredOutputGrammar(abc.ABC):
    @abc.abstractmethod
    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool: ...
    @abc.abstractmethod
    def validate_tokens(self, tokens: list[int]) -> list[int]: ...
    @abc.abstractmethod
    def rollback(self, num_tokens: int) -> None: ...
    @abc.abstractmethod
    def fill_bitmask(self, bitmask: Any, batch_index: int) -> None: ...
    @abc.abstractmethod
    def is_terminated(self) -> bool: ...
    @abc.abstractmethod
    def reset(self) -> None: ...


@dataclass
class StructuredOutputBackend(abc.ABC):
    vllm_config: Any
    tokenizer: Any
    vocab_size: int

    @abc.abstractmethod
    def compile_grammar(self, request_type: Any, grammar_spec: str, stop_token_ids: Any = None) -> Any: ...
    @abc.abstractmethod
    def allocate_token_bitmask(self, max_num_seqs: int) -> Any: ...
    @abc.abstractmethod
    def destroy(self) -> None: ...


def get_structured_output_key(params: StructuredOutputsParams) -> tuple[StructuredOutputOptions, str]:
    for name in ("json", "json_object", "regex", "choice", "grammar", "structural_tag"):
        value = getattr(params, name)
        if value:
            text = value if isinstance(value, str) else "" if value is True else json.dumps(value)
            return StructuredOutputOptions[name.upper()], text
    raise ValueError("there is no constraint")


class Request:
    def __init__(self, sampling_params: SamplingParams, num_prompt_tokens: int = 5) -> None:
        constraint = sampling_params.structured_outputs
        assert constraint is not None
        self.sampling_params = sampling_params
        self.max_tokens = sampling_params.max_tokens
        self.num_prompt_tokens = num_prompt_tokens
        self.output: list[int] = []
        self.structured_output_request = types.SimpleNamespace(
            structured_output_key=get_structured_output_key(constraint), grammar=None, reasoning_ended=None
        )

    @property
    def num_output_tokens(self) -> int:
        return len(self.output)


class StructuredOutputManager:
    """Rows as vLLM fills them: of each draft, one behind the other, and of the token after them."""

    def __init__(self, vllm_config: Any) -> None:
        self.backend: Any = None
        self.reasoner_cls: Any = vllm_config.reasoner
        self.vllm_config = vllm_config
        self.enable_in_reasoning = False
        self._use_async_grammar_compilation = vllm_config.is_async
        self._grammar_bitmask: Any = None
        self.executor = ThreadPoolExecutor(1)
        self.tokenizer = vllm_config.tokenizer

    def grammar_init(self, request: Request) -> None:
        self.backend = self.backend or "vLLM's own"
        made: Future[Any] = self.executor.submit(self._create_grammar, request)
        request.structured_output_request.grammar = made

    def _create_grammar(self, request: Request) -> Any:
        return self.backend

    def _fill_bitmasks(self, batch: Any) -> None:
        for grammar, row, constrained in batch:
            if constrained and not grammar.is_terminated():
                grammar.fill_bitmask(self._grammar_bitmask, row)
            else:
                self._grammar_bitmask.numpy()[row] = -1

    def grammar_bitmask(
        self,
        requests: dict[str, Request],
        structured_output_request_ids: list[str],
        scheduled_spec_decode_tokens: dict[str, list[int]],
    ) -> Any:
        row = 0
        for name in structured_output_request_ids:
            grammar = requests[name].structured_output_request.grammar
            drafts = scheduled_spec_decode_tokens.get(name, [])
            for token in drafts:
                self._fill_bitmasks(((grammar, row, True),))
                assert grammar.accept_tokens(name, [token])
                row += 1
            self._fill_bitmasks(((grammar, row, True),))
            row += 1
            grammar.rollback(len(drafts))
        return self._grammar_bitmask.numpy()[:row]


class Tensor:
    """The little of torch's that the plug-in uses: memory shared with NumPy's."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def numpy(self) -> Any:
        return self._values


_MODULES: dict[str, tuple[Any, ...]] = {
    "torch": (),
    "vllm": (),
    "vllm.exceptions": (VLLMValidationError,),
    "vllm.sampling_params": (SamplingParams, StructuredOutputsParams),
    "vllm.v1": (),
    "vllm.v1.request": (Request,),
    "vllm.v1.structured_output": (StructuredOutputManager,),
    "vllm.v1.structured_output.backend_types": (
        StructuredOutputBackend,
        StructuredOutputGrammar,
        StructuredOutputOptions,
    ),
    "vllm.v1.structured_output.request": (get_structured_output_key,),
}


def modules() -> dict[str, types.ModuleType]:
    """For `sys.modules`. Classes that the plug-in changes are made anew each time."""
    made = {}
    for name, members in _MODULES.items():
        module = types.ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        for member in members:
            fresh = member in (SamplingParams, StructuredOutputManager)
            value = type(member.__name__, (), dict(_own(member))) if fresh else member
            setattr(module, member.__name__, value)
        made[name] = module
    vars(made["torch"]).update(
        int32=np.int32, full=lambda shape, value, dtype: Tensor(np.full(shape, value, dtype))
    )
    return made


def _own(member: type) -> dict[str, Any]:
    return {k: v for k, v in vars(member).items() if k not in ("__dict__", "__weakref__")}
