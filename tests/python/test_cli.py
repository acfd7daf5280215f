"""The command line: what stops the start is one line that says what to do, and exit code 2."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from llgtrt import cli, start
from llgtrt import flags as command_line
from llgtrt.cli import main
from llgtrt.settings import load


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line's flags for the log hold in its process, and tests share one."""
    # Set first, so that it is put back as it was, absent or not.
    monkeypatch.setenv("LLGTRT_LOG", "")
    monkeypatch.delenv("LLGTRT_LOG")


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What is said about a command line that cannot be served."""
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("llgtrt: ")
    assert said.err.count("\n") == 1
    return said.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "serve"),
        (["serve"], "target"),
        (["bake", "toy"], "invalid choice"),
        (["serve", "toy", "--prot", "1"], "did you mean --port?"),
        (["serve", "toy", "--zork"], "unknown argument --zork; see"),
        (["serve", "toy", "--num-spec", "5"], "--num-spec; did you mean --num-speculative-tokens?"),
        (["serve", "toy", "--num_spec=5"], "did you mean --num-speculative-tokens?"),
        (["serve", "toy", "--ngram"], "--ngram-prompt-lookup-max or --ngram-prompt-lookup-min?"),
        (
            ["run", "--engine_dir", "toy", "--max_output_len", "1", "--top-"],
            "did you mean --top_k or --top_p?",
        ),
        (["serve", "toy", "--port", "x"], "--port"),
        (["serve", "toy", "draft"], "draft: no such engine folder"),
        (["serve", "toy", "tests"], "cannot draft for the weightless engine"),
        (["serve", "no/such/folder"], "no/such/folder: no such engine folder"),
        (["serve", "toy", "--runtime-config", "no-file"], "no-file: cannot be read"),
        (["serve", "toy", "--chat-template", "no-file"], "a preset (chatml, llama-3)"),
        (["serve", "toy", "--host", "256.1.1.1"], "--host"),
        (["serve", "toy", "--host", "a..b"], "a..b: no such address"),
        (["serve", "toy", "toy", "--speculative-model", "[ngram]"], "leave one out"),
        (
            ["serve", "toy", "--ngram-prompt-lookup-max", "1", "--ngram-prompt-lookup-min", "2"],
            "speculative.prompt_lookup.min_ngram",
        ),
        (["serve", "toy", "-tp", "2"], "parallel.tp_size: the weightless engine has no ranks"),
        (["serve", "toy", "toy", "--speculative_draft_tensor_parallel_size=2"], "has no ranks"),
        (["serve", "toy", "-tp", "17"], "parallel.tp_size: must be a whole number from 1 to 16"),
        (["serve", "toy", "--dtype", "float16"], "dtype: float16 is not what the file holds"),
        (["serve", "toy", "--engine", "vllm"], "engine.backend: is vllm, but toy is the weightless engine"),
        (["serve", "toy", "--pp", "2"], "pipeline_parallel_size: only vLLM has this; add --engine vllm"),
        (["serve", "toy", "--engine-args", "[]"], "--engine-args"),
        (["serve", "toy", "--model", "other"], "both targets"),
        (["serve", "toy", "--speculative-config", '{"method": "eagle"}'], "eagle is not supported"),
        (["serve", "toy", "--speculative-config", '{"modle": "toy"}'], "speculative_config.modle"),
        (["serve", "toy", "--speculative-config", "x"], "--speculative-config"),
        (["serve", "toy", "--set", "engine.treads=1"], "engine.threads"),
        (["serve", "toy", "--set", "speculative.draft_model=1"], "speculative.draft_model: must be a string"),
        (["serve", "toy", "--set", "speculative=1"], "speculative: must be an object"),
        (["serve", "toy", "--set", "engine.threads"], "must be KEY=VALUE"),
        (["serve", "toy", "--set", "engine.threads=-1"], "engine.threads"),
        (["serve", "toy", "-ngl", "some"], "-ngl"),
        (["serve", "toy", "-mg", "-1"], "engine.main_gpu"),
        (["serve", "toy", "-mg", "0", "-ts", "1"], "engine.tensor_split"),
        (["serve", "toy", "--max_model_lne", "5"], "did you mean --max-model-len?"),
        (["serve", "toy", "--seed", "-1"], "engine.seed"),
        (["serve", "toy", "-hf", "a/b"], "both targets"),
        (["serve", "toy", "--demo"], "toy and --demo are both targets"),
        (["serve", "--demo", "--speculative-model", "toy"], "--demo brings its own models"),
        (["serve", "--demo=large"], "invalid choice: 'large' (choose from"),
        (["serve", "-hf", "a-b"], "must be org/name"),
        (["serve", "toy", "--draft-tokenizer", "tests"], "there is no draft model"),
        (["serve", "toy", "toy", "--draft-engine", "toy"], "both draft models"),
        (["serve", "toy", "--n-draft-tokens", "65"], "speculative.max_draft_len"),
        (["serve", "toy", "--draft-len", "65"], "speculative.max_draft_len"),
    ],
)
def test_what_stops_the_start(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    assert said in refused(capsys, *arguments)


def test_a_port_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert f":{port}" in refused(capsys, "serve", "toy", "--port", port)


def test_a_bad_configuration_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "runtime.json"
    file.write_text('{"server": {"prot": 1}}')
    said = refused(capsys, "serve", "toy", "--runtime-config", str(file))
    assert "prot" in said
    assert str(file) in said


def test_flag_before_file_before_default(tmp_path: Path) -> None:
    (tmp_path / "runtime.json").write_text('{"server": {"port": 5, "send_timeout": 3}}')
    settings = load(str(tmp_path), None, {"server": {"port": 6}})
    assert (settings.server.port, settings.server.send_timeout, settings.server.host) == (6, 3, "127.0.0.1")
    other = tmp_path / "other.json"
    other.write_text('{"server": {"port": 7}}')
    assert load(str(tmp_path), str(other), {}).server.port == 7


def test_speculation_by_flags(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "runtime.json"
    file.write_text('{"speculative": {"sources": ["prompt_lookup"]}}')
    flags = ["--runtime-config", str(file), "--draft-len", "3", "--print-config"]
    for more, sources in ([], ["prompt_lookup"]), (["--no-speculation"], []):
        assert main(["serve", "toy", *flags, *more]) == 0
        file.with_name("printed.json").write_text(capsys.readouterr().out)
        printed = json.loads(load("toy", str(file.with_name("printed.json")), {}).config)["speculative"]
        assert (printed["max_draft_len"], printed["sources"]) == (3, sources)


def test_names_that_other_servers_have(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--speculative-model", "[ngram]", "--num-speculative-tokens", "4", "--seed", "9"]
    flags += ["--ngram-prompt-lookup-max", "5", "--ngram-prompt-lookup-min", "3"]
    assert main(["serve", "toy", *flags, "--print-config"]) == 0
    printed = capsys.readouterr().out
    for line in ('"max_draft_len": 4', '"max_ngram": 5', '"min_ngram": 3', '"seed": 9', '"prompt_lookup"'):
        assert line in printed
    assert main(["serve", "toy", "--speculative-model", "toy", "--print-config"]) == 0
    assert '"draft_model": "toy"' in capsys.readouterr().out


def test_the_second_name_may_be_a_speculator(capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(__file__).parents[1] / "core" / "speculator" / "tied-plain"
    assert main(["serve", "toy", str(folder), "--print-config"]) == 0
    printed = capsys.readouterr().out
    assert f'"mlp_speculator": "{folder}"' in printed
    assert '"draft_model": null' in printed


def test_the_models_name(tmp_path: Path) -> None:
    file = tmp_path / "Tiny-1.5B.gguf"
    file.touch()
    assert load(str(file), None, {}).model == "Tiny-1.5B"
    assert load(str(tmp_path), None, {}).model == tmp_path.name
    assert load(str(tmp_path), None, {"server": {"served_model_name": "m"}}).model == "m"
    assert load("toy", None, {}).model == "toy"


def test_print_config_is_a_configuration(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["serve", "toy", "--port", "7", "--print-config"]) == 0
    printed = capsys.readouterr().out
    file = tmp_path / "printed.json"
    file.write_text(printed)
    again = load("toy", str(file), {})
    assert again.server.port == 7
    assert json.loads(again.config) == json.loads(load("toy", None, {"server": {"port": 7}}).config)


def test_keys_are_counted_not_shown(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLGTRT_API_KEY", "sesame-environment")
    file = tmp_path / "keys"
    file.write_text("sesame-file\n")
    config = tmp_path / "runtime.json"
    config.write_text(json.dumps({"server": {"api_keys": ["sesame-config"], "api_key_file": str(file)}}))
    arguments = ["serve", "toy", "--runtime-config", str(config)]
    assert load("toy", str(config), {}).server.api_keys == (
        "sesame-config",
        "sesame-environment",
        "sesame-file",
    )
    assert main([*arguments, "--print-config"]) == 0
    shown = capsys.readouterr().out
    assert "sesame" not in shown
    assert "(hidden)" in shown
    printed = tmp_path / "printed.json"
    printed.write_text(shown)
    assert "write the key itself" in refused(capsys, "serve", "toy", "--runtime-config", str(printed))
    file.write_text("\n")
    assert "has no key" in refused(capsys, *arguments)
    file.unlink()
    assert "cannot be read" in refused(capsys, *arguments)
    config.write_text(json.dumps({"server": {"ssl_certfile": "x"}}))
    assert "give both, or neither" in refused(capsys, *arguments)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--api-key", "k"], "a key after --api-key shows in the list of processes"),
        (["--set", 'server.api_keys=["k"]'], "a key after --set shows in the list of processes"),
        (["--set", "server.api_key_file=pyproject.toml"], ""),
        (["--host", "0.0.0.0"], "there is no API key"),
        (["--host", "0.0.0.0", "--api-key", "k"], "list of processes"),
        ([], ""),
        (["--host", "localhost"], ""),
        (["--host", "::1"], ""),
    ],
)
def test_warnings_before_the_start(
    flags: list[str], said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("LLGTRT_API_KEY", raising=False)
    monkeypatch.setattr(start, "serve", lambda settings: 0)
    with caplog.at_level("WARNING"):
        assert main(["serve", "toy", *flags]) == 0
    warnings = [r.getMessage() for r in caplog.records if r.name == "llgtrt.cli"]
    assert len(warnings) == (1 if said else 0)
    assert said in "".join(warnings)


def config(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """What these arguments of `serve` come to."""
    assert main(["serve", *arguments, "--print-config"]) == 0
    return uncommented(capsys.readouterr().out)


def uncommented(printed: str) -> dict[str, Any]:
    """What `--print-config` has printed."""
    found: dict[str, Any] = json.loads("\n".join(line.split("//")[0] for line in printed.splitlines()))
    return found


def test_a_line_of_vllms_server(capsys: pytest.CaptureFixture[str]) -> None:
    line = "--model toy --seed 42 -tp 1 --speculative_model toy:blur=5 --num_speculative_tokens 5"
    line += " --use-v2-block-manager --gpu_memory_utilization 0.8 --max-model-len=2048 --max_num_seqs 7"
    line += " --speculative-disable-by-batch-size 9 --no-enable-prefix-caching --dtype auto"
    found = config(capsys, *line.split())
    assert found["speculative"]["draft_model"] == "toy:blur=5"
    assert found["speculative"]["max_draft_len"] == 5
    assert found["speculative"]["disable_by_batch_size"] == 9
    assert found["kv_cache_free_gpu_mem_fraction"] == 0.8
    assert (found["max_batch_size"], found["enable_kv_cache_reuse"]) == (7, False)
    assert (found["engine"]["seed"], found["engine"]["context"]) == (42, 2048)


def test_vllms_speculative_config(capsys: pytest.CaptureFixture[str]) -> None:
    ngram = {"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4}
    found = config(capsys, "toy", "--speculative_config", json.dumps(ngram))["speculative"]
    assert found["sources"] == ["forced", "prompt_lookup", "prediction", "grammar"]
    assert found["max_draft_len"] == 5
    assert (found["prompt_lookup"]["min_ngram"], found["prompt_lookup"]["max_ngram"]) == (1, 4)
    model = {"model": "toy:blur=5", "draft_tensor_parallel_size": 2, "disable_by_batch_size": 3}
    found = config(capsys, "toy", "--speculative-config", json.dumps(model))
    speculative = found["speculative"]
    assert (speculative["draft_model"], speculative["disable_by_batch_size"]) == ("toy:blur=5", 3)
    assert found["parallel"]["draft_tp_size"] == 2


def test_layers_are_placed_by_llama_server_s_flags(capsys: pytest.CaptureFixture[str]) -> None:
    for flags, key, value in [
        (["-ngl", "7"], "gpu_layers", 7),
        (["--n_gpu_layers", "auto"], "gpu_layers", None),
        (["--gpu-layers=all"], "gpu_layers", 65_535),
        (["-ngl", "-1"], "gpu_layers", 65_535),
        (["--main-gpu", "1"], "main_gpu", 1),
        (["-ts", "3,1"], "tensor_split", [3.0, 1.0]),
        (["--tensor-split", "0.5/1.5"], "tensor_split", [0.5, 1.5]),
    ]:
        assert config(capsys, "toy", *flags)["engine"][key] == value, flags


def test_any_key_can_be_set(capsys: pytest.CaptureFixture[str]) -> None:
    pairs = ["engine.max_step_ms=50", "speculative.sources=[]", "server.host=::1", "max_queue_size=5"]
    found = config(capsys, "toy", *(word for pair in pairs for word in ("--set", pair)), "--threads", "3")
    assert (found["engine"]["max_step_ms"], found["engine"]["threads"]) == (50, 3)
    assert found["speculative"]["sources"] == []
    assert (found["server"]["host"], found["max_queue_size"]) == ("::1", 5)


def test_the_flags_of_the_reference_product(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "conf.json"
    file.write_text('{"speculative": {"draft_target_model_config": [4, [0], [1], true]}}')
    line = ["--engine", "toy", "--draft-engine", "toy:blur=5", "--n-draft-tokens", "7", "--quiet"]
    found = config(capsys, *line, "--config", str(file))
    assert found["speculative"]["draft_model"] == "toy:blur=5"
    assert (found["speculative"]["max_draft_len"], found["speculative"]["use_logits"]) == (7, True)
    file.write_text('{"speculative": {"draft_target_model_config": [4, [0], [1, 2], true]}}')
    found = config(capsys, *line, "--config", str(file))["parallel"]
    assert (found["devices"], found["draft_devices"], found["tp_size"]) == ([1, 2], [0], None)
    found = config(capsys, *line, "--config", str(file), "--tp", "4")["parallel"]
    assert (found["devices"], found["draft_devices"], found["tp_size"]) == (None, [0], 4)
    assert "the weightless engine has no ranks" in refused(capsys, "serve", "toy", "--config", str(file))


def test_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--tensor-parallel-size", "2", "--speculative-draft-tensor-parallel-size", "1"]
    found = config(capsys, "toy", *words)["parallel"]
    assert (found["tp_size"], found["draft_tp_size"]) == (2, 1)


def test_several_names(capsys: pytest.CaptureFixture[str]) -> None:
    found = config(capsys, "toy", "--served-model-name", "a", "b", "--port", "0")["server"]
    assert (found["served_model_name"], found["served_model_aliases"]) == ("a", ["b"])
    settings = load("toy", None, {"server": {"served_model_aliases": ["b", "toy"]}})
    assert settings.names == ("toy", "b")


def test_the_models_own_defaults(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said = {"temperature": 0.6, "top_k": 20, "top_p": None, "max_new_tokens": 99, "eos_token_id": [1, 2]}
    (tmp_path / "generation_config.json").write_text(json.dumps(said))
    settings = load(str(tmp_path), None, {"sampling": {"top_k": 5}})
    assert settings.sampling == {"temperature": 0.6, "top_k": 5}
    assert json.loads(settings.config)["server"]["default_max_tokens"] == 99
    shown = config(capsys, str(tmp_path), "--set", "server.default_max_tokens=7")
    assert (shown["sampling"]["temperature"], shown["server"]["default_max_tokens"]) == (0.6, 7)
    assert config(capsys, str(tmp_path), "--generation-config", "none")["sampling"]["temperature"] is None
    for bad in ("[]", "{", '{"temperature": 9}'):
        (tmp_path / "generation_config.json").write_text(bad)
        assert "set engine.generation_config to none" in refused(capsys, "serve", str(tmp_path))


def test_help_needs_nothing_else() -> None:
    script = Path(cli.__file__).with_name("flags.py")
    done = subprocess.run([sys.executable, "-I", script, "serve", "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "--speculative-config" in done.stdout


def test_the_flags_of_the_log_reach_the_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "runtime.json"
    file.write_text('{"enable_batch_size_tuning": true}')
    command = [sys.executable, "-m", "llgtrt", "serve", "toy", "--config", str(file), "--print-config"]
    for flags, lines in ([], 1), (["--quiet"], 0):
        done = subprocess.run([*command, *flags], capture_output=True, text=True, check=True)
        assert done.stderr.count("enable_batch_size_tuning has an effect on TensorRT-LLM only") == lines
    seen = []

    def loading(*arguments: Any) -> Any:
        seen.append(os.environ.get("LLGTRT_LOG"))
        return load(*arguments)

    monkeypatch.setattr(cli, "load", loading)
    for flag in "--debug", "--quiet":
        monkeypatch.delenv("LLGTRT_LOG", raising=False)
        assert main(["serve", "toy", flag, "--print-config"]) == 0
    assert seen == ["debug", "warn"]


def test_a_saved_configuration_starts_without_notices(tmp_path: Path) -> None:
    file = tmp_path / "runtime.json"
    command = [sys.executable, "-m", "llgtrt", "serve", "toy", "--print-config"]
    file.write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    again = subprocess.run([*command, "--config", str(file)], capture_output=True, text=True, check=True)
    assert (again.stdout, again.stderr) == (file.read_text(), "")


def test_what_has_no_effect_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "generation_config.json").write_text('{"temperature": 0.5}')
    (tmp_path / "runtime.json").write_text(
        '{"event_buffer_max_size": 1, "speculative": {"draft_target_model_config": [4, [0], [1], true]}}'
    )
    command = [sys.executable, "-m", "llgtrt", "serve", str(tmp_path), "--print-config"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert '"temperature": 0.5' in done.stdout
    assert '"max_draft_len": 4' in done.stdout
    assert [line.split(": ", 1)[1] for line in done.stderr.splitlines()] == [
        "draft_target_model_config: the draft on [0]: no ranks",
        "draft_target_model_config: the target on [1]: no ranks",
        "runtime.json: event_buffer_max_size has an effect on TensorRT-LLM only",
    ]


def test_the_draft_model_may_stand_behind_flags() -> None:
    orders = (["a", "b", "--port", "1"], ["a", "--port", "1", "b"], ["--port", "1", "a", "b"])
    for order in orders:
        parsed = command_line.parse(["serve", *order])
        assert (parsed.target, parsed.draft, parsed.port) == ("a", "b", 1)
    with pytest.raises(command_line.UsageError, match="unknown argument c"):
        command_line.parse(["serve", "a", "b", "--port", "1", "c"])
    with pytest.raises(command_line.UsageError, match="unknown argument --zork"):
        command_line.parse(["serve", "a", "--zork", "b"])
