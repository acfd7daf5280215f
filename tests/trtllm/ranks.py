"""What each MPI rank does in `test_trtllm_ranks.py`: `ranks.py SCENARIO TARGET DRAFT`; rank 0 prints JSON."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pytest
from tensorrt_llm.bindings import executor as trt

RANK = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
PROMPT = list(b"A prompt for several ranks")
MASKED: list[int] = []


def forbid(_: Any, logits: Any, __: Any, ___: int, clients: Any) -> None:
    """Letters only from a to z."""
    import torch

    MASKED.append(RANK)
    with torch.cuda.stream(torch.cuda.ExternalStream(___)):
        for tensor in logits:
            tensor[:, :, :97].fill_(float("-inf"))
            tensor[:, :, 123:].fill_(float("-inf"))


def executor(folder: str, **config: Any) -> trt.Executor:
    return trt.Executor(folder, trt.ModelType.DECODER_ONLY, trt.ExecutorConfig(**config))


def ask(one: trt.Executor, count: int, **fields: Any) -> trt.Result:
    output = trt.OutputConfig(exclude_input_from_output=True, **fields.pop("output", {}))
    number = one.enqueue_request(trt.Request(PROMPT, count, output_config=output, **fields))
    response: trt.Response
    (response,) = one.await_responses(number, timeout=60.0)
    assert not response.has_error(), response.error_msg
    return response.result


def leader(target: str, draft: str) -> Any:
    """Two executors on every rank; callbacks on the first one alone."""
    post = trt.LogitsPostProcessorConfig(processor_batched=forbid, replicate=False)
    pair = [executor(folder, logits_post_processor_config=post) for folder in (target, draft)]
    leads = [one.can_enqueue_requests() for one in pair]
    assert leads == [RANK == 0] * 2
    seen: Any = None
    if RANK == 0:
        plain = [ask(one, 12).output_token_ids[0] for one in pair]
        masked = ask(pair[0], 12, logits_post_processor_name="batched").output_token_ids[0]
        config = trt.ExternalDraftTokensConfig(tokens=plain[0][:3])
        verified = ask(pair[0], 4, external_draft_tokens_config=config).output_token_ids[0]
        seen = {"plain": plain, "masked": masked, "verified": verified, "calls": len(MASKED)}
    else:
        with pytest.raises(RuntimeError, match="only the leader"):
            pair[0].enqueue_request(trt.Request([1], 1))
    for one in pair:
        one.shutdown()
    assert RANK == 0 or not MASKED
    return seen


def orchestrator(target: str, draft: str) -> Any:
    """Rank 0 orchestrates, rank 1 drafts, ranks 2 and 3 are the target; logits go from draft to target."""

    def parallel(ranks: list[int]) -> trt.ParallelConfig:
        return trt.ParallelConfig(
            communication_mode=trt.CommunicationMode.ORCHESTRATOR,
            participant_ids=ranks,
            orchestrator_config=trt.OrchestratorConfig(is_orchestrator=RANK == 0, spawn_processes=False),
        )

    fast = trt.SpeculativeDecodingConfig(fast_logits=True)
    folders = [(draft, [1]), (target, [2, 3])]
    mine = [(f, ranks) for f, ranks in folders if RANK == 0 or RANK in ranks]
    opened = [executor(f, parallel_config=parallel(ranks), spec_dec_config=fast) for f, ranks in mine]
    seen: Any = None
    if RANK == 0:
        seen = rounds(*opened)
    for one in opened:
        one.shutdown()
    return seen


def rounds(draft: trt.Executor, target: trt.Executor) -> Any:
    """Rounds of both, with and without the draft's logits."""
    gathered = {"return_generation_logits": True}
    counts = []
    for seed in range(4):
        sampling = trt.SamplingConfig(top_p=1.0, seed=seed)
        drafted = ask(draft, 5, sampling_config=sampling, output=gathered)
        tokens, info = drafted.output_token_ids[0], drafted.spec_dec_fast_logits_info
        assert info is not None
        assert info.draft_participant_id == 1
        config = trt.ExternalDraftTokensConfig(tokens=tokens, logits=info.to_tensor(), fast_logits=True)
        found = ask(target, 6, sampling_config=sampling, external_draft_tokens_config=config)
        counts.append(len(found.output_token_ids[0]))
    return {"counts": counts, "plain": ask(target, 12).output_token_ids[0]}


if __name__ == "__main__":
    seen = {"leader": leader, "orchestrator": orchestrator}[sys.argv[1]](*sys.argv[2:])
    if RANK == 0:
        print(json.dumps(seen))
