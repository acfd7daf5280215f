"""The calls into TensorRT-LLM's Executor, for the core (`rust/src/exec/trtllm`).

Every class and keyword of `tensorrt_llm.bindings.executor` that is used is named here, and set explicitly,
because defaults differ between releases. `tensorrt_llm` is imported when an engine folder is opened, not
before.

The executor's thread calls `Executor._process` and waits for the GIL there. So no thread may wait for it
while holding the GIL: `await_responses` and `shutdown` release it, and the core computes masks without it.
"""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypedDict

from llgtrt import mpi
from llgtrt.engines import CONTAINER, Unusable

log = logging.getLogger(__name__)


class Order(TypedDict):
    """A request of the core's."""

    client_id: int
    input_token_ids: list[int]
    max_tokens: int
    streaming: bool
    top_k: int | None
    top_p: float | None
    temperature: float | None
    min_p: float | None
    seed: int
    repetition_penalty: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    prompt_ignore_length: int | None
    end_id: int
    stop_words: list[list[int]]
    draft_tokens: list[int]
    return_log_probs: bool
    return_generation_logits: bool
    return_perf_metrics: bool
    masked: bool
    """The core is asked for masks."""
    priority: float
    cache_salt_id: int | None
    guide: str | None
    """A constraint in Lark, for what enforces it by itself."""


Answer = tuple[int, str | None, list[int], bool, str, list[float], Any, int | None]
"""The request's client id, an error, new tokens, whether it is the last, why it ended; of the tokens, where
asked for, log-probabilities and logits; where asked for, with the last, blocks of KV that it found."""

Masks = Callable[[list[tuple[int | None, int, list[int]]], int], bytes]
"""From requests (client id, rows, text so far) and the width of a row in tokens to one bit for each token of
each row, in words of 32 from the lowest bit on, set where the token may be drawn."""


def find() -> Any:
    """`tensorrt_llm.bindings.executor`.

    Raises:
        Unusable: it is not installed, or has no Executor.
    """
    try:
        bindings = importlib.import_module("tensorrt_llm.bindings.executor")
    except ImportError as e:
        raise Unusable(
            f"the folder holds an engine of TensorRT-LLM, which cannot be imported ({e}); "
            f"pip install 'llgtrt[trtllm]', or run in NVIDIA's container {CONTAINER}"
        ) from e
    if not hasattr(bindings, "Executor"):
        raise Unusable(
            "this release of TensorRT-LLM has no Executor, which runs engine folders; "
            "install one from 0.18 to 1.2, or serve the model's Hugging Face folder"
        )
    return bindings


def abilities() -> list[str]:
    """What this release's requests take beyond those of 0.18: names of arguments.

    Raises:
        Unusable: as `find`.
    """
    bindings = find()
    places = {
        "cache_salt_id": bindings.Request,
        "prompt_ignore_length": bindings.SamplingConfig,
        "min_p": bindings.SamplingConfig,
    }
    return [name for name, place in places.items() if hasattr(place, name)]


def rank() -> int:
    """The number of this process in the MPI job; 0 without one."""
    return mpi.rank() or 0


class Executor:
    """An engine folder that serves requests, of which the core drives one or two."""

    def __init__(self, folder: str, options: str, masks: Masks | None) -> None:
        """Loads the engine; `options`: the core's `Options`, in JSON.

        Raises:
            Unusable: as `find`.
            Exception: TensorRT-LLM refuses the engine or an option.
        """
        self._bindings = bindings = find()
        self._masks = masks
        self._ends = {
            "END_ID": bindings.FinishReason.END_ID,
            "STOP_WORDS": bindings.FinishReason.STOP_WORDS,
            "LENGTH": bindings.FinishReason.LENGTH,
            "TIMED_OUT": bindings.FinishReason.TIMED_OUT,
            "CANCELLED": bindings.FinishReason.CANCELLED,
        }
        given = json.loads(options)
        self._fast_logits = bool(given["fast_logits"])
        self._executor = bindings.Executor(
            model_path=folder,
            model_type=bindings.ModelType.DECODER_ONLY,
            executor_config=self._config(given),
        )

    def _config(self, given: dict[str, Any]) -> Any:
        bindings = self._bindings
        scheduler, dynamic = given["scheduler"], given["dynamic_batch"]
        post = None
        if self._masks is not None:
            post = bindings.LogitsPostProcessorConfig(
                processor_map=None, processor_batched=self._process, replicate=False
            )
        return bindings.ExecutorConfig(
            scheduler_config=bindings.SchedulerConfig(
                capacity_scheduler_policy=getattr(
                    bindings.CapacitySchedulerPolicy, scheduler["capacity_scheduler_policy"]
                ),
                context_chunking_policy=getattr(
                    bindings.ContextChunkingPolicy, scheduler["context_chunking_policy"]
                ),
                dynamic_batch_config=bindings.DynamicBatchConfig(
                    enable_batch_size_tuning=dynamic["enable_batch_size_tuning"],
                    enable_max_num_tokens_tuning=dynamic["enable_max_num_tokens_tuning"],
                    dynamic_batch_moving_average_window=dynamic["dynamic_batch_moving_average_window"],
                ),
            ),
            kv_cache_config=bindings.KvCacheConfig(**_known(bindings.KvCacheConfig, given["kv_cache"])),
            batching_type=bindings.BatchingType.INFLIGHT,
            parallel_config=self._parallel(given["parallel"]),
            peft_cache_config=bindings.PeftCacheConfig(),
            logits_post_processor_config=post,
            decoding_config=None,
            extended_runtime_perf_knob_config=bindings.ExtendedRuntimePerfKnobConfig(
                multi_block_mode=True, enable_context_fmha_fp32_acc=False
            ),
            debug_config=None,
            spec_dec_config=bindings.SpeculativeDecodingConfig(fast_logits=self._fast_logits),
            guided_decoding_config=None,
            **_known(
                bindings.ExecutorConfig,
                {**given["executor"], "additional_model_outputs": None, "cache_transceiver_config": None},
            ),
        )

    def _parallel(self, given: dict[str, Any]) -> Any:
        bindings = self._bindings
        mode, orchestrator = bindings.CommunicationMode.LEADER, None
        if given["orchestrator"]:
            mode = bindings.CommunicationMode.ORCHESTRATOR
            # The ranks are there: both executors speak over the world's communicator, as fast logits need.
            orchestrator = bindings.OrchestratorConfig(
                is_orchestrator=rank() == 0,
                worker_executable_path="",
                orch_leader_comm=None,
                spawn_processes=False,
            )
        return bindings.ParallelConfig(
            communication_type=bindings.CommunicationType.MPI,
            communication_mode=mode,
            device_ids=given["device_ids"],
            participant_ids=given["participant_ids"],
            orchestrator_config=orchestrator,
            **_known(bindings.ParallelConfig, {"num_nodes": None}),
        )

    def leads(self) -> bool:
        """Whether this process hands requests in; the others only compute."""
        return bool(self._executor.can_enqueue_requests())

    def enqueue(self, order: Order, logits: Any) -> int:
        """Hands a request in; its id.

        `logits`: what its draft tokens were drawn from, `[draft tokens or more, vocabulary]`, or where it is
        on another rank; or None.

        Raises:
            Exception: TensorRT-LLM refuses it.
        """
        return int(self._executor.enqueue_request(request=self._request(order, logits)))

    def cancel(self, request: int) -> None:
        """Ends a request, which may have ended already."""
        self._executor.cancel_request(id=request)

    def wait(self, seconds: float) -> list[Answer]:
        """What has been answered; waits so long for it, without the GIL."""
        return [self._answer(response) for response in self._executor.await_responses(timeout=seconds)]

    def shutdown(self) -> None:
        """Ends everything, without the GIL; on a rank that does not lead, waits until the leader ends."""
        self._executor.shutdown()

    def _request(self, order: Order, logits: Any) -> Any:
        bindings = self._bindings
        draft = None
        if order["draft_tokens"]:
            if logits is not None and not self._fast_logits:
                # The draft may have been cut.
                logits = logits[: len(order["draft_tokens"])]
            draft = bindings.ExternalDraftTokensConfig(
                tokens=order["draft_tokens"],
                logits=logits,
                acceptance_threshold=None,
                fast_logits=self._fast_logits if logits is not None else None,
            )
        more = _given(order, "cache_salt_id")
        return bindings.Request(
            input_token_ids=order["input_token_ids"],
            max_tokens=order["max_tokens"],
            streaming=order["streaming"],
            sampling_config=self._sampling(order),
            output_config=bindings.OutputConfig(
                return_log_probs=order["return_log_probs"],
                return_context_logits=False,
                return_generation_logits=order["return_generation_logits"],
                exclude_input_from_output=True,
                return_encoder_output=False,
                return_perf_metrics=order["return_perf_metrics"],
            ),
            end_id=order["end_id"],
            stop_words=order["stop_words"] or None,
            external_draft_tokens_config=draft,
            logits_post_processor_name=(
                bindings.Request.BATCHED_POST_PROCESSOR_NAME if order["masked"] else None
            ),
            client_id=order["client_id"],
            return_all_generated_tokens=False,
            priority=order["priority"],
            type=bindings.RequestType.REQUEST_TYPE_CONTEXT_AND_GENERATION,
            **more,
        )

    def _sampling(self, order: Order) -> Any:
        return self._bindings.SamplingConfig(
            beam_width=1,
            top_k=order["top_k"],
            top_p=order["top_p"],
            seed=order["seed"],
            temperature=order["temperature"],
            repetition_penalty=order["repetition_penalty"],
            presence_penalty=order["presence_penalty"],
            frequency_penalty=order["frequency_penalty"],
            **_given(order, "min_p", "prompt_ignore_length"),
        )

    def _answer(self, response: Any) -> Answer:
        client = response.client_id
        if response.has_error():
            return (client, str(response.error_msg), [], True, "", [], None, None)
        result = response.result
        tokens = list(result.output_token_ids[0])
        # Streamed answers may repeat those of earlier tokens.
        probs = result.log_probs[0][-len(tokens) :] if result.log_probs and tokens else []
        reason = result.finish_reasons[0] if result.finish_reasons else None
        metrics = result.request_perf_metrics
        end = next((name for name, member in self._ends.items() if reason == member), "")
        return (
            client,
            None,
            tokens,
            bool(result.is_final),
            end,
            list(probs),
            self._logits(result, len(tokens)),
            metrics.kv_cache_metrics.num_reused_blocks if metrics else None,
        )

    def _logits(self, result: Any, count: int) -> Any:
        """Those that the tokens were drawn from, as a target takes them: `[count, vocabulary]` on the CPU."""
        if self._fast_logits and result.spec_dec_fast_logits_info is not None:
            return result.spec_dec_fast_logits_info.to_tensor()
        if result.generation_logits is None:
            return None
        return result.generation_logits[0, :count].cpu()

    def _process(
        self,
        req_ids: list[int],
        logits: list[Any],
        token_ids: list[list[list[int]]],
        stream_ptr: int,
        client_ids: list[int | None],
    ) -> None:
        """Takes away what may not be drawn, in place and on the executor's stream.

        Never raises: that would end the executor's thread.
        """
        try:
            self._mask(logits, token_ids, stream_ptr, client_ids)
        except BaseException as e:
            # What is drawn now would be unconstrained; the core hears of it before the tokens come.
            log.exception("masks of %d requests could not be written", len(req_ids))
            fail = getattr(self._masks, "fail", None)
            if fail is not None:
                fail(client_ids, f"{type(e).__name__}: {e}")

    def _mask(
        self,
        logits: list[Any],
        token_ids: list[list[list[int]]],
        stream_ptr: int,
        client_ids: list[int | None],
    ) -> None:
        """One upload for all rows; what a bit forbids is minus infinity."""
        assert self._masks is not None
        torch = importlib.import_module("torch")
        width = int(logits[0].shape[-1])
        asked = [
            (client, int(tensor.shape[0]), text[0])
            for client, tensor, text in zip(client_ids, logits, token_ids, strict=True)
        ]
        words = self._masks(asked, width)
        device = logits[0].device
        packed = torch.frombuffer(bytearray(words), dtype=torch.int32)
        if device.type != "cuda":
            self._write(torch, packed, logits, width)
            return
        with torch.cuda.stream(torch.cuda.ExternalStream(stream_ptr)):
            # The pinned memory is kept until the stream has read it.
            self._write(torch, packed.pin_memory().to(device, non_blocking=True), logits, width)

    @staticmethod
    def _write(torch: Any, packed: Any, logits: Sequence[Any], width: int) -> None:
        shifts = torch.arange(32, dtype=torch.int32, device=packed.device)
        total = sum(int(tensor.shape[0]) for tensor in logits)
        bits = (packed.view(-1, 1) >> shifts) & 1
        forbidden = (bits == 0).view(total, -1)[:, :width]
        at = 0
        for tensor in logits:
            count = int(tensor.shape[0])
            tensor.masked_fill_(forbidden[at : at + count].view(count, 1, width), float("-inf"))
            at += count


def _known(cls: Any, values: dict[str, Any]) -> dict[str, Any]:
    """The arguments that this release's class has: each is a property of its instances, too.

    Those that it lacks are newer, and are at the values that it behaves by.
    """
    return {name: value for name, value in values.items() if hasattr(cls, name)}


def _given(order: Order, *names: str) -> dict[str, Any]:
    """Arguments that older releases lack, where the core gives them: it knows `abilities`."""
    values: dict[str, Any] = dict(order)
    return {name: values[name] for name in names if values[name] is not None}
