"""The engine without a server, on the weightless model."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llgtrt import LLM, SamplingParams, StructuredOutputsParams
from llgtrt import offline as module
from llgtrt.cli import main
from llgtrt.llm import Prompt
from llgtrt.run import check_tokenizer
from llgtrt.settings import Settings, StartError, load

ROOT = Path(__file__).parents[2]
PROMPTS: list[Prompt] = ["one", "two", {"prompt_token_ids": [116, 119, 111]}, {"prompt": "three"}]


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    with LLM("toy", seed=7) as llm:
        yield llm


def texts(llm: LLM, **fields: Any) -> list[str]:
    params = SamplingParams(max_tokens=30, **fields)
    return [o.outputs[0].text for o in llm.generate(PROMPTS, params, use_tqdm=False)]


def test_outputs_come_in_the_order_of_the_prompts(llm: LLM) -> None:
    outputs = llm.generate(PROMPTS, SamplingParams(temperature=0, max_tokens=9), use_tqdm=False)
    assert [o.prompt for o in outputs] == ["one", "two", None, "three"]
    assert outputs[1].prompt_token_ids == outputs[2].prompt_token_ids
    assert outputs[1].outputs[0].text == outputs[2].outputs[0].text
    for output in outputs:
        assert output.finished
        assert len(output.outputs[0].token_ids) <= 9
        assert output.outputs[0].finish_reason in ("stop", "length")
    ids = [int(output.request_id) for output in outputs]
    assert ids == list(range(ids[0], ids[0] + 4))


def test_a_seed_for_all_gives_the_same_texts_again() -> None:
    runs = []
    for seed in (1, 1, 2, None):
        with LLM("toy", seed=seed) as llm:
            runs.append([*texts(llm), *texts(llm)])
    assert runs[0] == runs[1] != runs[2]
    assert runs[3] not in runs[:3]
    assert runs[0][:4] != runs[0][4:]


def test_drafts_change_nothing(llm: LLM) -> None:
    want = texts(llm, seed=5)
    for name in ("[ngram]", "toy:blur=20", str(ROOT / "tests" / "core" / "speculator" / "tied-plain")):
        with LLM(
            "toy",
            speculative_model=name,
            num_speculative_tokens=3,
            ngram_prompt_lookup_min=1,
            ngram_prompt_lookup_max=2,
            # Guesses after random texts would hardly be made.
            config={"speculative": {"adaptive": False}},
        ) as other:
            assert texts(other, seed=5) == want
            # The counts come after the last event.
            deadline = time.monotonic() + 10
            while not totals(other)["drafted_tokens"] and time.monotonic() < deadline:
                time.sleep(0.01)
            assert totals(other)["drafted_tokens"], name


def totals(llm: LLM) -> dict[str, Any]:
    """All that the engine has counted so far."""
    assert llm._core is not None
    counts: dict[str, Any] = json.loads(llm._core.metrics())["totals"]
    return counts


def test_what_was_drafted_counts_not_what_was_asked_for() -> None:
    # A draft model with little KV drafts less than would pay.
    with LLM("toy:step_us=3000", speculative_model="toy:blur=5,kv=40", num_speculative_tokens=16) as llm:
        llm.generate(PROMPTS, SamplingParams(max_tokens=60, seed=3), use_tqdm=False)
        deadline = time.monotonic() + 100
        while sum(totals(llm)[f"requests_{end}"] for end in ("stop", "length")) < len(PROMPTS):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        counts = totals(llm)
    lengths = counts["drafting"]["lengths"]
    assert sum(length * steps for length, steps in enumerate(lengths)) == counts["drafted_tokens"] > 0


def test_choices_logprobs_and_stops(llm: LLM) -> None:
    params = [
        SamplingParams(n=3, seed=1, logprobs=2, max_tokens=5),
        SamplingParams(seed=1, stop=("a", "e", "i", "o"), max_tokens=200),
    ]
    several, stopped = llm.generate(["x", "x"], params, use_tqdm=False)
    assert [choice.index for choice in several.outputs] == [0, 1, 2]
    for choice in several.outputs:
        assert choice.logprobs is not None
        assert [token in at for token, at in zip(choice.token_ids, choice.logprobs, strict=True)]
        drawn = [at[token] for token, at in zip(choice.token_ids, choice.logprobs, strict=True)]
        assert choice.cumulative_logprob == pytest.approx(sum(drawn))
        assert all(2 <= len(at) <= 3 for at in choice.logprobs)
    assert stopped.outputs[0].finish_reason == "stop"
    assert not set(stopped.outputs[0].text) & set("aeio")


def test_structured_outputs(llm: LLM) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "boolean"}}}
    schema |= {"required": ["a"], "additionalProperties": False}
    forms: list[tuple[StructuredOutputsParams, Any]] = [
        (StructuredOutputsParams(json=schema), lambda text: set(json.loads(text)) == {"a"}),
        (StructuredOutputsParams(json=json.dumps(schema)), lambda text: set(json.loads(text)) == {"a"}),
        (StructuredOutputsParams(regex="[ab]{3}"), lambda text: len(text) == 3 and not set(text) - set("ab")),
        (StructuredOutputsParams(choice=["yes", "no"]), lambda text: text in ("yes", "no")),
        (StructuredOutputsParams(grammar='start: "x" "y"'), lambda text: text == "xy"),
    ]
    for form, right in forms:
        params = SamplingParams(max_tokens=200, structured_outputs=form)
        (output,) = llm.generate("x", params, use_tqdm=False)
        assert right(output.outputs[0].text), output
    with pytest.raises(ValueError, match="exactly one of json, regex"):
        llm.generate("x", SamplingParams(structured_outputs=StructuredOutputsParams()))
    wrong = SamplingParams(structured_outputs=StructuredOutputsParams(json={"type": "strin"}))
    with pytest.raises(ValueError, match="sampling_params: type at the root"):
        llm.generate(["x", "y"], [SamplingParams(max_tokens=1), wrong], use_tqdm=False)


def test_chat(llm: LLM, capsys: pytest.CaptureFixture[str]) -> None:
    talk = [{"role": "user", "content": "hello"}]
    params = SamplingParams(temperature=0, max_tokens=5)
    one = llm.chat(talk, params)
    assert "1/1" in capsys.readouterr().err
    two = llm.chat([talk, talk], params, use_tqdm=False)
    assert one[0].prompt is not None
    assert "hello<|im_end|>" in one[0].prompt
    assert [o.outputs[0].text for o in two] == [one[0].outputs[0].text] * 2
    with pytest.raises(ValueError, match=r"conversation 0: .*role"):
        llm.chat([{"role": "king", "content": "x"}])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"temperature": 3.0}, "temperature"),
        ({"top_p": 1.5}, "top_p"),
        ({"n": 0}, "n"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"logit_bias": {-1: 2.0}}, "logit_bias"),
    ],
)
def test_wrong_parameters_are_named(llm: LLM, fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        llm.generate(["x"], SamplingParams(**fields), use_tqdm=False)


def test_wrong_prompts_are_named(llm: LLM) -> None:
    wrong: Any = {"text": "x"}
    with pytest.raises(ValueError, match=r"prompts\[1\]: must be a text"):
        llm.generate(["x", wrong], use_tqdm=False)
    with pytest.raises(ValueError, match=r"prompts\[0\]: .*prompt"):
        llm.generate([{"prompt_token_ids": [999_999]}], use_tqdm=False)
    with pytest.raises(ValueError, match="2 for 1 prompts"):
        llm.generate(["x"], [SamplingParams()] * 2, use_tqdm=False)
    assert llm.generate([], use_tqdm=False) == []


def test_more_prompts_than_a_servers_line(llm: LLM) -> None:
    outputs = llm.generate(["x"] * 1500, SamplingParams(max_tokens=1), use_tqdm=False)
    assert len(outputs) == 1500


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such engine folder"):
        LLM("no/such/folder")
    with pytest.raises(ValueError, match=r"has no model\.gguf"):
        LLM(str(tmp_path))
    with pytest.raises(ValueError, match="max_batch_sizes"):
        LLM("toy", config={"max_batch_sizes": 3})
    folder = tmp_path / "speculator"
    shutil.copytree(ROOT / "tests" / "core" / "speculator" / "tied-plain", folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "emb_dim": 9}))
    with pytest.raises(ValueError, match=r"proj\.0\.weight"):
        LLM("toy", speculative_model=str(folder))


def test_after_close() -> None:
    llm = LLM("toy")
    llm.close()
    llm.close()
    with pytest.raises(RuntimeError, match="closed"):
        llm.generate("x")


def test_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    base = ["run", "--engine_dir", "toy", "--input_text", "one", "two", "--max_output_len", "5"]
    assert (
        main([*base, "--draft_engine_dir", "toy", "--draft_target_model_config", "[4, [0], [1], False]"]) == 0
    )
    drafted = capsys.readouterr().out
    assert drafted.count("Input [Text ") == drafted.count("Output [Text ") == 2
    assert main(base) == 0
    assert capsys.readouterr().out == drafted
    refusals = {
        "beam search is not supported": ["--num_beams", "2"],
        "has no tokenizer": ["--tokenizer_dir", str(tmp_path)],
        "kv_cache_free_gpu_mem_fraction": ["--kv_cache_free_gpu_memory_fraction", "2"],
        "must be like [4, [0], [1], False]": ["--draft_target_model_config", "[4]"],
        "has no ranks": ["--draft_target_model_config", "[4, [0], [1, 2], False]"],
        "there is no Python session": ["--use_py_session"],
        "give one of them": ["--input_file", "x.csv"],
        "unknown argument --zork": ["--zork"],
    }
    for said, flags in refusals.items():
        assert main([*base, *flags]) == 2
        assert said in capsys.readouterr().err


def test_the_keywords_of_vllm() -> None:
    common: dict[str, Any] = {"tensor_parallel_size": 1, "gpu_memory_utilization": 0.3, "dtype": "auto"}
    common |= {"use_v2_block_manager": True, "max_model_len": 512}
    params = SamplingParams(temperature=0.8, top_p=0.95, seed=1, max_tokens=12)
    texts = set()
    for own in (
        {},
        {"speculative_model": "toy:blur=5", "num_speculative_tokens": 5},
        {"speculative_model": "[ngram]", "num_speculative_tokens": 5, "ngram_prompt_lookup_max": 4},
        {
            "speculative_model": str(ROOT / "tests" / "core" / "speculator" / "untied-plain"),
            "speculative_draft_tensor_parallel_size": 1,
        },
        {"speculative_config": {"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 1}},
        {"speculative_config": {"model": "toy:blur=5", "num_speculative_tokens": 5}},
        {"speculative_model": "toy:blur=5", "speculative_disable_by_batch_size": 1},
    ):
        with LLM(model="toy", **common, **own) as llm:
            (output,) = llm.generate("The future of AI is", params, use_tqdm=False)
            texts.add(output.outputs[0].text)
    assert len(texts) == 1


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"tensor_parallel_size": 2}, "parallel.tp_size: the weightless engine has no ranks"),
        (
            {"speculative_model": "toy", "speculative_draft_tensor_parallel_size": 4},
            "the weightless engine has no ranks",
        ),
        ({"dtype": "float16"}, "dtype"),
        ({"speculative_config": {"method": "eagle"}}, "eagle"),
        ({"speculative_config": {"model": "toy", "quantization": "fp8"}}, "quantization"),
    ],
)
def test_what_is_not_there_is_said(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        LLM("toy", **fields)


def test_the_rest_of_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ids = tmp_path / "ids.csv"
    ids.write_text("5,6,7,8\n9,10\n")
    out = tmp_path / "out.csv"
    # Slow enough that what grows is seen to grow.
    line = f"run --engine_dir toy:step_us=20000 --max_output_len 12 --input_file {ids} --max_input_length 3"
    line += f" --pad_id 2 --output_generation_logits --output_csv {out} --top_p 0 --random_seed 0"
    assert main(line.split()) == 0
    whole = capsys.readouterr().out
    assert whole.count("Output [Text ") == 2
    rows = [line.split(",") for line in out.read_text().splitlines()]
    assert [len(row) > 0 for row in rows] == [True, True]
    # The end of one output, made the token that ends it.
    end = rows[0][5]
    assert main([*line.split(), "--end_id", end]) == 0
    capsys.readouterr()
    assert out.read_text().splitlines()[0].split(",") == rows[0][: rows[0].index(end)]
    assert main([*line.split(), "--streaming", "--streaming_interval", "3"]) == 0
    streamed = capsys.readouterr().out.splitlines()
    assert len(streamed) > 4
    lasts = {said.split(":")[0]: said for said in streamed}
    assert list(lasts.values()) == [said for said in whole.splitlines() if said.startswith("Output")]
    assert main([*line.split(), "--run_profiling"]) == 0
    assert "batch_size: 2, avg latency of 10 iterations: " in capsys.readouterr().out
    for name, said in ("ids.npy", "neither .txt nor .csv"), ("none.csv", "cannot be read"):
        assert main([*line.split(), "--input_file", str(tmp_path / name)]) == 2
        assert said in capsys.readouterr().err
    ids.write_text("5,x\n")
    assert main(line.split()) == 2
    assert "invalid literal" in capsys.readouterr().err


def test_only_flags_that_are_given_come_before_the_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "runtime.json"
    said: dict[str, Any] = {"enable_kv_cache_reuse": False, "kv_cache_max_tokens": 7000}
    said |= {"kv_cache_free_gpu_mem_fraction": 0.25, "speculative": {"max_draft_len": 3, "use_logits": False}}
    said |= {
        "sampling": {"temperature": 1.5, "top_k": 50, "top_p": 0.9, "min_p": 0.1, "repetition_penalty": 2}
    }
    file.write_text(json.dumps(said))
    opened: list[Settings] = []

    def opening(*arguments: Any) -> Settings:
        opened.append(load(*arguments))
        return opened[-1]

    monkeypatch.setattr(module, "load", opening)
    line = "run --engine_dir toy --max_output_len 30 --random_seed 5 --input_text once"
    outputs = []
    file_flags = ["--runtime-config", str(file)]
    greedy = ["--temperature", "1", "--top_k", "1", "--top_p", "0", "--repetition_penalty", "1"]
    for more in [], file_flags, [*file_flags, *greedy]:
        assert main([*line.split(), *more]) == 0
        outputs.append(capsys.readouterr().out)
    config = json.loads(opened[1].config)
    assert {key: config[key] for key in said if key != "speculative"} == {
        key: value for key, value in said.items() if key != "speculative"
    }
    assert config["speculative"].items() >= said["speculative"].items()
    assert json.loads(opened[0].config)["enable_kv_cache_reuse"] is True
    assert outputs[0] == outputs[2] != outputs[1]
    flags = ["--kv_cache_enable_block_reuse", "--kv_cache_free_gpu_memory_fraction", "0.5"]
    flags += ["--max_tokens_in_paged_kv_cache", "8000", "--draft_target_model_config", "[4,[0],[1],True]"]
    assert main([*line.split(), "--runtime-config", str(file), *flags]) == 0
    config = json.loads(opened[3].config)
    assert (config["enable_kv_cache_reuse"], config["kv_cache_free_gpu_mem_fraction"]) == (True, 0.5)
    assert config["kv_cache_max_tokens"] == 8000
    # What the model's files say of sampling is not read: as with run.py, outputs are greedy.
    (tmp_path / "generation_config.json").write_text('{"temperature": 1.5, "top_k": 50}')
    file.unlink()
    assert main(line.replace("toy", str(tmp_path)).split()) == 2
    assert "has no model.gguf" in capsys.readouterr().err
    assert opened[-1].sampling == {}
    assert (config["speculative"]["max_draft_len"], config["speculative"]["use_logits"]) == (4, True)


def test_a_tokenizer_beside_a_bare_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model, folder = tmp_path / "m.gguf", tmp_path / "hf"
    model.touch()
    folder.mkdir()
    with pytest.raises(StartError, match="has no tokenizer"):
        check_tokenizer("--tokenizer_dir", str(model), str(folder))
    (folder / "tokenizer.json").write_text("{}")
    check_tokenizer("--tokenizer_dir", str(model), str(folder))
    assert caplog.messages == [
        f"--tokenizer_dir: {folder} is not read, nor compared: {model} has its tokenizer within"
    ]
    (tmp_path / "tokenizer.json").write_text("[]")
    with pytest.raises(StartError, match="differs"):
        check_tokenizer("--tokenizer_dir", str(model), str(folder))


@pytest.fixture
def slow() -> Iterator[LLM]:
    """An engine whose outputs are seen to grow."""
    with LLM("toy:step_us=20000", seed=7) as llm:
        yield llm


def test_outputs_as_they_grow(slow: LLM) -> None:
    params = SamplingParams(max_tokens=20, seed=3)
    whole = slow.generate(["a", "b"], params, use_tqdm=False)
    lengths: dict[str, list[int]] = {}
    last: dict[str, str] = {}
    for output in slow.generate_stream(["a", "b"], params):
        lengths.setdefault(output.request_id, []).append(len(output.outputs[0].token_ids))
        last[output.request_id] = output.outputs[0].text
    assert all(grown == sorted(grown) and len(grown) > 1 for grown in lengths.values())
    assert [last[name] for name in sorted(last, key=int)] == [output.outputs[0].text for output in whole]
    some = slow.generate_stream("a", SamplingParams(max_tokens=500, ignore_eos=True))
    next(some)
    some.close()
    assert slow.generate("a", params, use_tqdm=False)[0].outputs[0].text == whole[0].outputs[0].text
