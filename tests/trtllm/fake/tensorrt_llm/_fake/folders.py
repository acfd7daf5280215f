"""Writes engine folders: `python -m tensorrt_llm._fake.folders FOLDER --draft-len 10 --tp 2`.

Every file that `llgtrt build --engine trtllm` leaves is there, with the weightless model's vocabulary.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
from pathlib import Path
from typing import Any

from tensorrt_llm import __version__
from tensorrt_llm._fake.engine import EXTERNAL_DRAFTS
from tensorrt_llm._fake.model import END, PIECES, SPECIAL, WIDTH

TEMPLATE = """\
{%- for message in messages -%}
{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\\n' }}
{%- endif -%}
"""


@dataclasses.dataclass
class Folder:
    """An engine: the model in it, and what it was built for. Lengths are in tokens."""

    seed: int = 1
    blur: float = 0.0
    end_bias: float = 1.0
    tp: int = 1
    draft_len: int = 0
    """Most draft tokens of a target; 0 for an engine that takes none."""
    input_len: int = 4096
    seq_len: int = 4096
    batch: int = 128
    step_tokens: int = 8192
    block: int = 32
    gathers: bool = False
    half: bool = False
    runtime: dict[str, Any] = dataclasses.field(default_factory=dict)
    """`runtime.json`."""
    faults: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Of `Faults`, by name."""
    config: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Parts of `config.json` that differ, by dotted name: `build_config.max_draft_len`."""
    checkpoint: bool = False
    """A folder in Hugging Face's layout instead, for the LLM API."""

    def write(self, folder: Path) -> Path:
        """All files; the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.checkpoint:
            return self._write_checkpoint(folder)
        config = self._config()
        for dotted, value in self.config.items():
            *path, last = dotted.split(".")
            part = config
            for name in path:
                part = part[name]
            part[last] = value
        for name, content in {"config.json": config, **self._texts()}.items():
            (folder / name).write_text(json.dumps(content, indent=1) + "\n")
        (folder / "chat_template.jinja").write_text(TEMPLATE)
        toy = {"seed": self.seed, "blur": self.blur, "end_bias": self.end_bias}
        for rank in range(self.tp):
            engine = {"toy": toy, "rank": rank, "faults": self.faults}
            (folder / f"rank{rank}.engine").write_text(json.dumps(engine))
        return folder

    def _write_checkpoint(self, folder: Path) -> Path:
        config = {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": WIDTH,
            "eos_token_id": list(END),
            "max_position_embeddings": self.seq_len,
        }
        toy = {"seed": self.seed, "blur": self.blur, "end_bias": self.end_bias}
        files = {"config.json": config, "toy.json": {"toy": toy, "faults": self.faults}, **self._texts()}
        for name, content in files.items():
            (folder / name).write_text(json.dumps(content, indent=1) + "\n")
        (folder / "chat_template.jinja").write_text(TEMPLATE)
        return folder

    def _texts(self) -> dict[str, Any]:
        """What lies beside the weights."""
        return {
            "generation_config.json": {"eos_token_id": list(END)},
            "tokenizer.json": tokenizer(),
            "tokenizer_config.json": {"eos_token": SPECIAL[1], "tokenizer_class": "PreTrainedTokenizerFast"},
            "runtime.json": self.runtime,
        }

    def _config(self) -> dict[str, Any]:
        return {
            "version": __version__,
            "pretrained_config": self._pretrained(),
            "build_config": {
                "max_input_len": self.input_len,
                "max_seq_len": self.seq_len,
                "max_batch_size": self.batch,
                "max_beam_width": 1,
                "max_num_tokens": self.step_tokens,
                "opt_num_tokens": self.batch,
                "max_prompt_embedding_table_size": 0,
                "kv_cache_type": "PAGED",
                "gather_context_logits": False,
                "gather_generation_logits": self.gathers,
                "max_draft_len": self.draft_len,
                "speculative_decoding_mode": EXTERNAL_DRAFTS if self.draft_len else 1,
                "max_encoder_input_len": 1024,
                "lora_config": {"lora_dir": [], "max_lora_rank": 64, "lora_target_modules": []},
                "plugin_config": {
                    "gpt_attention_plugin": "auto",
                    "gemm_plugin": "bfloat16",
                    "context_fmha": True,
                    "paged_kv_cache": True,
                    "remove_input_padding": True,
                    "tokens_per_block": self.block,
                    "use_paged_context_fmha": True,
                    "lora_plugin": None,
                },
            },
        }

    def _pretrained(self) -> dict[str, Any]:
        return {
            "architecture": "LlamaForCausalLM",
            "dtype": "bfloat16",
            "logits_dtype": "float16" if self.half else "float32",
            "vocab_size": WIDTH,
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": self.seq_len,
            "mapping": {
                "world_size": self.tp,
                "gpus_per_node": 8,
                "cp_size": 1,
                "tp_size": self.tp,
                "pp_size": 1,
                "moe_tp_size": 1,
                "moe_ep_size": 1,
            },
            "quantization": {"quant_algo": None, "kv_cache_quant_algo": None},
        }


def _letters() -> list[str]:
    """The characters that byte-level vocabularies write the 256 bytes with."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte if byte in plain else 0x100 + others.index(byte)) for byte in range(256)]


def tokenizer() -> dict[str, Any]:
    """`tokenizer.json` of the weightless vocabulary, which takes the longest token at each place.

    Text is cut before each of the tokens that have several bytes; what is left between them falls into bytes.
    """
    letters = _letters()
    words = ["".join(letters[byte] for byte in piece.encode()) for piece in PIECES]
    pattern = "|".join([*(re.escape(piece).replace(r"\ ", " ") for piece in PIECES), r"[\s\S]"])
    added = [
        {
            "id": 256 + len(PIECES) + i,
            "content": text,
            "special": True,
            "normalized": False,
            "lstrip": False,
            "rstrip": False,
            "single_word": False,
        }
        for i, text in enumerate(SPECIAL)
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
                {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
            ],
        },
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": True,
            "vocab": {text: number for number, text in enumerate([*letters, *words])},
            "merges": [],
        },
    }


def main() -> None:
    """Writes a folder from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    for field in dataclasses.fields(Folder):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=json.loads)
    given = {name: value for name, value in vars(parser.parse_args()).items() if value is not None}
    print(Folder(**{name: value for name, value in given.items() if name != "folder"}).write(given["folder"]))


if __name__ == "__main__":
    main()
