"""The demo pair on a GPU: `launch/check-vulkan.sh` runs these where there is none, through lavapipe.

With CUDA, those about the driver and about memory's limits are skipped: they are Vulkan's.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gguf
import jsonschema
import pytest

from .serving import PACKAGE, PATIENCE, ROOT, Server, serving

pytestmark = pytest.mark.gpu
SCHEMA = {
    "type": "object",
    "properties": {
        "customer": {"type": "string", "maxLength": 12},
        "quantity": {"type": "integer", "minimum": 0, "maximum": 999},
    },
    "required": ["customer", "quantity"],
    "additionalProperties": False,
}
VULKAN = (Path(PACKAGE) / "llgtrt" / "backends" / "libggml-vulkan.so").exists()
of_vulkan = pytest.mark.skipif(not VULKAN, reason="skipped: the backend is not Vulkan's")
FORM = {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}}
TARGET, DRAFT = (str(ROOT / "demo" / name) for name in ("target", "draft"))
GPU = r"(?:Vulkan|CUDA)0"
ALL = 65_535
"""More layers than there are."""
PAIR = {
    "max_batch_size": 8,
    "engine": {"gpu_layers": ALL},
    "speculative": {"draft_model": DRAFT, "max_draft_len": 4, "adaptive": False},
}
ORDERS = [
    f"A new order came in from {name}. The order is for {count} pieces. It arrives on {day}.\n"
    "Extract customer, quantity and day as JSON."
    for name, count, day in (("Tom Weber", 12, "Friday"), ("Anna Berg", 3, "May 4"), ("Otto", 590, "Easter"))
]


def on_gpu(config: dict[str, Any], target: str = TARGET) -> Any:
    """A server of the test's own."""
    return serving(target, "--served-model-name", "demo", config=config)


@pytest.fixture(scope="module", name="pair")
def fixture_pair() -> Iterator[Server]:
    """Target and draft, with all layers on the GPU."""
    with on_gpu(PAIR) as server:
        yield server.wait_ready()


def chat(server: Server, **fields: Any) -> Any:
    body = {
        "messages": [{"role": "user", "content": ORDERS[0]}],
        "max_tokens": 60,
        "temperature": 0,
        **fields,
    }
    answer = server.http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_what_computes_is_said(pair: Server) -> None:
    log = pair.log()
    assert re.search(rf"{GPU} \(.+\): computes what is known", log), log
    assert re.search(rf"all 6 layers on {GPU} \(.+\); KV f16 in", log), log
    assert re.search(rf"draft model: .*all 4 layers on {GPU} .*; 1 thread;", log), log
    assert "exact: up to near-ties" in log


def test_a_chat_ends_and_is_counted(pair: Server) -> None:
    answer = chat(pair)
    choice, usage = answer["choices"][0], answer["usage"]
    assert (choice["finish_reason"], "Tom Weber" in choice["message"]["content"]) == ("stop", True), choice
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_constraints_hold_in_a_batch(pair: Server) -> None:
    def ask(seed: int) -> str:
        answer = chat(pair, temperature=1.5, seed=seed, **FORM)["choices"][0]
        assert answer["finish_reason"] == "stop"
        return str(answer["message"]["content"])

    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(ask, range(8)))
    for text in texts:
        jsonschema.validate(json.loads(text), SCHEMA)
    assert len(set(texts)) > 1


def test_drafts_are_accepted(pair: Server) -> None:
    before = pair.fates("draft_model")
    chat(pair)
    chat(pair, **FORM)
    fates = pair.fates("draft_model") - before
    assert fates["accepted"] > fates["target"], fates


def test_logprobs_are_those_of_what_was_chosen(pair: Server) -> None:
    tokens = chat(pair, logprobs=True, top_logprobs=5)["choices"][0]["logprobs"]["content"]
    assert len(tokens) > 5
    for token in tokens:
        best = token["top_logprobs"]
        assert token["logprob"] == best[0]["logprob"]
        assert sum(math.exp(other["logprob"]) for other in best) < 1.0001


def test_a_stream_brings_what_an_answer_does(pair: Server) -> None:
    whole = chat(pair)["choices"][0]["message"]["content"]
    with pair.client() as client:
        messages: Any = [{"role": "user", "content": ORDERS[0]}]
        stream = client.chat.completions.create(
            model="demo", messages=messages, max_tokens=60, temperature=0, stream=True
        )
        pieces = [chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices]
    assert len(pieces) > 2
    assert json.loads("".join(pieces)) == json.loads(whole)


@pytest.fixture(scope="module", name="exact")
def fixture_exact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo target with its weights as F32, which a CPU does not round any further."""
    folder = tmp_path_factory.mktemp("exact")
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        (folder / name).write_bytes((Path(TARGET) / name).read_bytes())
    reader = gguf.GGUFReader(f"{TARGET}/model.gguf")
    writer = gguf.GGUFWriter(folder / "model.gguf", reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            kind = field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(name, field.contents(), field.types[0], kind)
    for tensor in reader.tensors:
        plain = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, plain.reshape(tensor.shape[::-1].tolist()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return folder


def scored(server: Server) -> list[list[dict[str, float]]]:
    """For each text and position, the log-probabilities of the likeliest tokens there."""

    def ask(text: str) -> list[dict[str, float]]:
        body = {"prompt": text, "echo": True, "logprobs": 5, "max_tokens": 1, "temperature": 0}
        answer = server.http.post("/v1/completions", json=body)
        assert answer.status_code == 200, answer.text
        rows: list[dict[str, float]] = answer.json()["choices"][0]["logprobs"]["top_logprobs"][1:]
        return rows

    texts = [f"{order}\n" * 4 for order in ORDERS]
    return [ask(text) for text in texts]


def distances(server: Server, exact: Path) -> tuple[list[float], list[float]]:
    """Where another token is the best than with exact weights on the CPU: by how many nats it is not there.
    And for all positions, by how many nats the best one's score differs.
    """
    config = {"max_batch_size": 8, "engine": {"gpu_layers": 0, "kv_cache_type": "f16"}}
    with on_gpu(config, str(exact)) as cpu:
        wanted = scored(cpu.wait_ready())
    gaps, off = [], []
    for mine, theirs in zip(scored(server), wanted, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            best, chosen = (max(row, key=lambda token: row[token]) for row in (b, a))
            if chosen != best:
                gaps.append(b[best] - b[chosen])
            off.append(abs(a[best] - b[best]))
    mean, most = sum(off) / len(off), max(off)
    print(f"{len(gaps)} of {len(off)} rows part: {gaps}; scores are off by {mean:.5f}, {most:.5f} at most")
    assert len(off) > 400
    assert len(gaps) <= 0.03 * len(off)
    return gaps, off


@of_vulkan
def test_scores_are_the_exact_ones_up_to_near_ties(exact: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GGML_VK_DISABLE_F16", "1")
    with on_gpu({"max_batch_size": 8, "engine": {"gpu_layers": ALL}}) as server:
        gaps, off = distances(server.wait_ready(), exact)
    assert max(gaps, default=0) < 0.05
    assert max(off) < 0.05


def test_with_products_in_16_bits_they_are_near(pair: Server, exact: Path) -> None:
    gaps, off = distances(pair, exact)
    assert max(gaps, default=0) < 0.5
    assert sum(off) / len(off) < 0.05


@of_vulkan
def test_kv_is_planned_below_the_largest_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    # 4 MiB hold 16,384 rows of 2 heads of 64 numbers of 2 bytes. Beyond that, and eight contexts would have
    # 32,768, the library ends the process.
    monkeypatch.setenv("GGML_VK_FORCE_MAX_BUFFER_SIZE", str(4 << 20))
    monkeypatch.setenv("GGML_VK_FORCE_MAX_ALLOCATION_SIZE", str(4 << 20))
    with on_gpu(PAIR) as server:
        server.wait_ready()
        assert re.search(r"\b16384 KV tokens shared", server.log()), server.log()
        assert chat(server)["choices"][0]["message"]["content"]


@of_vulkan
def test_kv_takes_what_is_free_up_to_the_device_s_own_limit() -> None:
    config = {
        "max_batch_size": 256,
        "kv_cache_free_gpu_mem_fraction": 1,
        "engine": {"gpu_layers": ALL, "kv_layout": "shared"},
    }
    with on_gpu(config) as server:
        server.wait_ready()
        found = re.search(r"(\d+) KV tokens shared", server.log())
        assert found
        # What is free, 2 GiB here, would hold more; a tensor of the device's, 128 MiB, holds this many rows.
        assert int(found[1]) == (128 << 20) // 256
        assert chat(server)["choices"][0]["message"]["content"]


def test_some_layers_may_stay_on_the_cpu() -> None:
    with on_gpu({"max_batch_size": 4, "engine": {"gpu_layers": 3}}) as server:
        server.wait_ready()
        assert re.search(rf"3 of 6 layers on {GPU} .*, the others on the CPU; KV f16", server.log())
        jsonschema.validate(json.loads(chat(server, **FORM)["choices"][0]["message"]["content"]), SCHEMA)


@of_vulkan
@pytest.mark.skipif("LLGTRT_TWO_GPUS" not in os.environ, reason="skipped: lavapipe of Mesa before 25")
@pytest.mark.parametrize(
    ("split", "said"),
    [("tensor", "split over Vulkan0 .*, Vulkan1 "), ("layer", "all 6 layers on Vulkan0 .*, Vulkan1 ")],
)
def test_two_gpus_share_a_pair(split: str, said: str, exact: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The same device twice.
    monkeypatch.setenv("GGML_VK_VISIBLE_DEVICES", "0,0")
    monkeypatch.setenv("GGML_VK_DISABLE_F16", "1")
    parallel = {"tp_size": 2, "split": split}
    config = {name: value for name, value in PAIR.items() if name != "engine"} | {"parallel": parallel}
    with on_gpu(config) as server:
        server.wait_ready()
        assert re.search(said, server.log()), server.log()
        before = server.fates("draft_model")
        assert json.loads(chat(server, **FORM)["choices"][0]["message"]["content"])["customer"] == "Tom Weber"
        assert (server.fates("draft_model") - before)["accepted"] > 0
        gaps, off = distances(server, exact)
    assert max(gaps, default=0) < 0.05
    assert max(off) < 0.05


def failure(*flags: str) -> str:
    """What a server that cannot start says."""
    command = [sys.executable, "-m", "llgtrt", "serve", TARGET, "--port", "0", *flags]
    path = {"PYTHONPATH": PACKAGE}
    done = subprocess.run(
        command, env=os.environ | path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 2, done.stderr
    return done.stderr.strip().splitlines()[-1]


def hide_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine with Vulkan's loader and no driver."""
    monkeypatch.delenv("GGML_VK_VISIBLE_DEVICES", raising=False)
    for name in ("VK_ICD_FILENAMES", "VK_DRIVER_FILES"):  # the older name and the newer
        monkeypatch.setenv(name, "/no/such/driver.json")


@of_vulkan
@pytest.mark.parametrize("flags", [["-ngl", "all"], ["--gpu-layers", "2"], ["-mg", "0"], ["-ts", "1"]])
def test_a_gpu_that_was_asked_for_must_be_there(flags: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    hide_driver(monkeypatch)
    why = failure(*flags)
    assert "engine." in why
    assert "there is no GPU: libggml-vulkan.so finds no GPU; install its driver" in why


@of_vulkan
def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    why = failure("--main-gpu", "3")
    assert "engine.main_gpu: there is no GPU 3; there are 0 = Vulkan0 (" in why
    assert "engine.tensor_split: has 2 shares for 1 GPUs" in failure("--tensor-split", "3,1")
    monkeypatch.setenv("GGML_VK_VISIBLE_DEVICES", "9")
    assert "with GGML_VK_VISIBLE_DEVICES=9" in failure("-ngl", "1")


@of_vulkan
def test_without_a_driver_the_cpu_computes_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_driver(monkeypatch)
    with on_gpu({"max_batch_size": 4}) as server:
        server.wait_ready()
        log = server.log()
        assert log.count("the CPU computes: libggml-vulkan.so finds no GPU") == 1, log
        assert "exact: bit-identical" in log
        assert "layers on" not in log
        assert chat(server)["choices"][0]["message"]["content"]


def test_layers_may_be_kept_off_the_gpu() -> None:
    with on_gpu({"max_batch_size": 4, "engine": {"gpu_layers": 0}}) as server:
        server.wait_ready()
        assert "exact: bit-identical" in server.log()
        assert "layers on" not in server.log()


@of_vulkan
def test_the_extension_needs_no_vulkan_to_load() -> None:
    library = Path(PACKAGE) / "llgtrt" / "_core.abi3.so"
    needed = subprocess.run(["readelf", "-d", str(library)], capture_output=True, text=True, check=True)
    assert "(NEEDED)" in needed.stdout
    assert "libvulkan" not in needed.stdout
