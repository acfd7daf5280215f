"""Lines of other products' documentation, on the demo pair: only names of programs and paths are ours."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .serving import PATIENCE, ROOT, Server, serving, until

DEMO = ROOT / "demo"
TARGET, DRAFT, SPECULATOR = DEMO / "target", DEMO / "draft", DEMO / "speculator"
SMALL = {"max_batch_size": 4}
"""A configuration that is loaded quickly."""

RUNTIME: dict[str, Any] = {
    "guaranteed_no_evict": False,
    "max_batch_size": 128,
    "max_num_tokens": 8192,
    "max_queue_size": 0,
    "enable_chunked_context": True,
    "enable_kv_cache_reuse": True,
    "kv_cache_free_gpu_mem_fraction": 0.9,
    "kv_cache_host_memory_megabytes": 0,
    "kv_cache_onboard_blocks": True,
    "cross_kv_cache_fraction": None,
    "secondary_offload_min_priority": None,
    "event_buffer_max_size": None,
    "enable_batch_size_tuning": True,
    "enable_max_num_tokens_tuning": True,
}
"""All keys of the reference product's `runtime.json`, with its defaults."""
IGNORED = {name for name in RUNTIME if name.endswith("_tuning")}
"""Those that differ from this server's defaults, and have no effect on llama.cpp."""
OF_DRAFTS = {name for name in RUNTIME if name.startswith("kv_cache_")}
"""Keys that mean something for a draft model."""

CHAT = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 8}


def program(text: str, *arguments: str) -> str:
    """What a Python program prints."""
    done = run([sys.executable, "-c", text, *arguments])
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(command: list[str] | str) -> subprocess.CompletedProcess[str]:
    """Runs a command, or a line of a shell."""
    own = {"PYTHONPATH": str(ROOT / "python"), "PYTHON": sys.executable}
    shell = isinstance(command, str)
    return subprocess.run(
        command, shell=shell, env=os.environ | own, capture_output=True, text=True, timeout=PATIENCE
    )


def engine(folder: Path, model: Path, runtime: dict[str, Any]) -> str:
    """A folder with the model's files and its own configuration."""
    folder.mkdir()
    for file in model.iterdir():
        if file.name != "runtime.json":
            (folder / file.name).symlink_to(file)
    (folder / "runtime.json").write_text(json.dumps(runtime))
    return str(folder)


def test_the_reference_products_runtime_json_in_both_folders(tmp_path: Path) -> None:
    target, draft = engine(tmp_path / "t", TARGET, RUNTIME), engine(tmp_path / "d", DRAFT, RUNTIME)
    with serving(target, "--draft-engine", draft, "--config", f"{target}/runtime.json") as server:
        assert server.wait_ready().http.post("/v1/chat/completions", json=CHAT).status_code == 200
        log = server.log()
    told = re.findall(r"runtime\.json: (\w+) has an effect on TensorRT-LLM only", log)
    assert sorted(told) == sorted(IGNORED)
    (line,) = [line for line in log.splitlines() if "mean nothing for a draft model" in line]
    named = line.partition("runtime.json: ")[2].removesuffix(" mean nothing for a draft model")
    assert set(named.split(", ")) == set(RUNTIME) - OF_DRAFTS


class Quiet(Server):
    """A server that does not say where it listens."""

    def __init__(self, port: int, *flags: str) -> None:
        self._port = port
        super().__init__(*flags, "--quiet", "--port", str(port))

    def _address(self) -> str:
        for _ in until():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port)):
                return f"http://127.0.0.1:{self._port}"
            assert self.process.poll() is None, self.log()
        raise AssertionError("no port\n" + self.log())


def test_flags_of_the_reference_product(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    file = tmp_path / "conf.json"
    file.write_text(
        json.dumps({**SMALL, "server": {"access_log": "json"}, "speculative": {"adaptive": False}})
    )
    flags = ["--draft-engine", str(DRAFT), "--draft-tokenizer", str(DRAFT), "--n-draft-tokens", "3"]
    flags += ["--config", str(file)]
    with contextlib.closing(Quiet(port, f"--engine={TARGET}", *flags)) as server:
        wanted = {"type": "lark_grammar", "lark_grammar": 'start: "yes" | "no"'}
        told = server.wait_ready().http.post("/v1/chat/completions", json={**CHAT, "response_format": wanted})
        assert told.json()["choices"][0]["message"]["content"] in ("yes", "no")
        for path in "/v1/health/live", "/v1/health/ready":
            assert server.http.get(path).status_code == 200
        long = {**CHAT, "max_tokens": 40, "ignore_eos": True}
        assert server.http.post("/v1/chat/completions", json=long).status_code == 200
        server.wait_metric('llgtrt_draft_lengths_total{place="3"}')
        assert server.metric('llgtrt_draft_lengths_total{place="4"}') == 0
        assert server.fates("draft_model")
        # What was asked for by name is all that it writes.
        assert any(server.log().count("\n") > 2 for _ in until())
        assert all(line.startswith('{"time": ') for line in server.log().splitlines()), server.log()


def test_the_readme_of_tensorrt_llms_draft_target_model() -> None:
    line = (
        "$PYTHON -m llgtrt run --tokenizer_dir={target} --draft_engine_dir={draft} --engine_dir={target} "
        '--draft_target_model_config="[4,[0],[1],True]" --max_output_len=256 --kv_cache_enable_block_reuse '
        "--kv_cache_free_gpu_memory_fraction=0.4 --output_generation_logits "
        '--input_text="How does Draft-Sampling work?"'
    )
    done = run(line.format(target=TARGET, draft=DRAFT))
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0] == 'Input [Text 0]: "How does Draft-Sampling work?"'
    assert said[1].startswith('Output [Text 0 Beam 0]: "')
    for part in ("draft on [0]: no ranks", "target on [1]: no ranks", "draft_model draft", "up to 4 tokens"):
        assert part in done.stderr
    assert "acceptance: Rejection" in done.stderr


OFFLINE = """
import sys
from llgtrt import LLM, SamplingParams

if __name__ == "__main__":
    prompts = ["The future of AI is"]
    sampling_params = SamplingParams(temperature=0.8, top_p=0.95)
    llm = LLM(%s)
    outputs = llm.generate(prompts, sampling_params)
    for output in outputs:
        prompt = output.prompt
        generated_text = output.outputs[0].text
        print(f"Prompt: {prompt!r}, Generated text: {generated_text!r}")
"""


@pytest.mark.parametrize(
    "arguments",
    [
        f"model={str(TARGET)!r}, tensor_parallel_size=1, speculative_model={str(DRAFT)!r}, "
        "num_speculative_tokens=5",
        f"model={str(TARGET)!r}, tensor_parallel_size=1, speculative_model='[ngram]', "
        "num_speculative_tokens=5, ngram_prompt_lookup_max=4",
        f"model={str(TARGET)!r}, tensor_parallel_size=1, speculative_model={str(SPECULATOR)!r}, "
        "speculative_draft_tensor_parallel_size=1, use_v2_block_manager=True",
        f"model={str(TARGET)!r}, tensor_parallel_size=1, speculative_config={{'model': {str(DRAFT)!r}, "
        "'num_speculative_tokens': 5}",
    ],
    ids=["draft model", "n-gram", "MLP speculator", "speculative_config"],
)
def test_vllms_offline_programs(arguments: str) -> None:
    printed = program(OFFLINE % arguments)
    assert printed.startswith("Prompt: 'The future of AI is', Generated text: ")


CLIENT = """
import sys
from openai import OpenAI

openai_api_key = "EMPTY"
openai_api_base = sys.argv[1]
client = OpenAI(api_key=openai_api_key, base_url=openai_api_base)
models = client.models.list()
model = models.data[0].id
for stream in False, True:
    completion = client.completions.create(
        model=model, prompt="The future of AI is", echo=False, n=1, stream=stream
    )
    print("Completion results:")
    if stream:
        for c in completion:
            print(c)
    else:
        print(completion)
"""


def test_vllms_server_and_client() -> None:
    flags = f"--model {TARGET} --seed 42 -tp 1 --speculative_model {DRAFT} --use-v2-block-manager"
    flags += " --num_speculative_tokens 5 --gpu_memory_utilization 0.8"
    with serving("--host=127.0.0.1", *flags.split(), config=SMALL) as server:
        printed = program(CLIENT, server.wait_ready().url + "/v1")
        assert printed.count("Completion results:") == 2
        assert printed.count("finish_reason='length'") + printed.count("finish_reason='stop'") == 2
        assert "only this machine reaches it (--host)" in server.log()
