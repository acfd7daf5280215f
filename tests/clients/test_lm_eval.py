"""lm-eval-harness by `local-completions`: tasks and data are the test's own, the tokenizer the demo's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .programs import ALONE, TOKENIZER
from .recorder import Recorder

PROMPT = "<|im_start|>user\n{{story}}\nExtract quantity as JSON.<|im_end|>\n<|im_start|>assistant\n"
ANSWER = '{"quantity": {{quantity}}}'
ORDERS = [("Tom Weber", 12), ("Anna Fischer", 7), ("Paul Novak", 31)]


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in ALONE.items():
        monkeypatch.setenv(name, value)
    return pytest.importorskip("lm_eval")


def task(name: str, data: Path, **fields: Any) -> dict[str, Any]:
    return {
        "task": name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "test_split": "test",
        "doc_to_text": PROMPT,
        "target_delimiter": "",
        **fields,
    }


def metric(name: str) -> list[dict[str, Any]]:
    return [{"metric": name, "aggregation": "mean", "higher_is_better": True}]


def test_a_generation_and_a_loglikelihood_task(
    harness: Any, demo: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    data = tmp_path / "orders.jsonl"
    rows = [
        {"customer": c, "quantity": n, "story": f"A new order came in from {c}. The order is for {n} pieces."}
        for c, n in ORDERS
    ]
    data.write_text("\n".join(map(json.dumps, rows)))
    until = {"until": ["<|im_end|>"], "max_gen_toks": 48, "temperature": 0}
    written = task(
        "written", data, output_type="generate_until", doc_to_target=ANSWER, generation_kwargs=until,
        metric_list=metric("exact_match"),
    )  # fmt: skip
    answers = [json.dumps({"quantity": n}) for _, n in ORDERS]
    chosen = task(
        "chosen", data, output_type="multiple_choice", doc_to_choice=answers,
        doc_to_target=f"{{{{{[n for _, n in ORDERS]}.index(quantity)}}}}", metric_list=metric("acc"),
    )  # fmt: skip
    server = {"model": "demo", "base_url": f"{demo.url}/v1/completions", "tokenizer": TOKENIZER}
    told = harness.simple_evaluate(
        model="local-completions",
        model_args={**server, "tokenizer_backend": "huggingface", "max_retries": 1, "num_concurrent": 2},
        tasks=[written, chosen],
        bootstrap_iters=0,
        cache_requests=False,
    )
    assert told["results"]["written"]["exact_match,none"] == 1
    assert told["results"]["chosen"]["acc,none"] == 1
    asked = [each.asked() for each in demo.on("/v1/completions")]
    assert sum(bool(fields.get("echo")) for fields in asked) == len(ORDERS) ** 2
    assert len(asked) == len(ORDERS) ** 2 + len(ORDERS)
