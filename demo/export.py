"""Writes an engine folder: `model.gguf` (Q8_0 matrices, F32 norms) and the tokenizer files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, TypeAlias

import gguf
import jax
import numpy as np
from numpy.typing import NDArray

from demo.infer import Model
from demo.model import CONTEXT, DRAFT, TARGET, Shape, count
from demo.tokenizer import END, END_OF_TEXT, PRE, SPECIAL, TEMPLATE

Floats: TypeAlias = NDArray[np.float32]
TENSORS = {
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
    "attn_norm": "attn_norm",
    "ffn_norm": "ffn_norm",
}


def paired(weight: Floats, heads: int) -> Floats:
    """Rows of Q or K `[heads * head, n_embd]` with rotary pairs made neighbours, as llama.cpp wants them."""
    width = weight.shape[1]
    return weight.reshape(heads, 2, -1, width).swapaxes(1, 2).reshape(-1, width)


def unpaired(weight: Floats, heads: int) -> Floats:
    """Undo `paired`."""
    width = weight.shape[1]
    return weight.reshape(heads, -1, 2, width).swapaxes(1, 2).reshape(-1, width)


def vocabulary(work: Path) -> tuple[list[str], list[int], list[str]]:
    """Tokens by id, their GGUF types, and the merges of `tokenizer.json`."""
    stored: dict[str, Any] = json.loads((work / "tokenizer.json").read_text())
    ids: dict[str, int] = dict(stored["model"]["vocab"])
    kinds = dict.fromkeys(ids.values(), int(gguf.TokenType.NORMAL))
    for added in stored["added_tokens"]:
        ids[added["content"]] = added["id"]
        known = added["content"] in SPECIAL
        kinds[added["id"]] = int(gguf.TokenType.CONTROL if known else gguf.TokenType.UNUSED)
    tokens = sorted(ids, key=ids.__getitem__)
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in stored["model"]["merges"]]
    return tokens, [kinds[i] for i in range(len(tokens))], merges


def describe(writer: gguf.GGUFWriter, shape: Shape, work: Path) -> None:
    """Write the metadata: sizes of the model, vocabulary, special ids, chat template."""
    tokens, kinds, merges = vocabulary(work)
    writer.add_name("llgtrt demo")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(shape.n_embd)
    writer.add_block_count(shape.n_layer)
    writer.add_feed_forward_length(shape.n_ff)
    writer.add_head_count(shape.n_head)
    writer.add_head_count_kv(shape.n_kv)
    writer.add_key_length(shape.head)
    writer.add_value_length(shape.head)
    writer.add_rope_dimension_count(shape.head)
    writer.add_rope_freq_base(shape.rope_theta)
    writer.add_layer_norm_rms_eps(shape.eps)
    writer.add_vocab_size(shape.vocab)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(PRE)
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(tokens.index(END))
    writer.add_eot_token_id(tokens.index(END))
    writer.add_pad_token_id(tokens.index(END_OF_TEXT))
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)


def export(params: dict[str, Any], shape: Shape, work: Path, folder: Path) -> None:
    """Write `folder` from weights (numpy arrays) and the tokenizer files in `work`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copyfile(work / name, folder / name)
    partial = folder / "model.gguf.partial"
    writer = gguf.GGUFWriter(str(partial), "llama")
    describe(writer, shape, work)
    _add(writer, "token_embd.weight", params["embed"])
    _add(writer, "output_norm.weight", params["norm"])
    for number in range(shape.n_layer):
        for name, tensor in TENSORS.items():
            weight = params["layers"][name][number]
            if name in ("q", "k"):
                weight = paired(weight, shape.n_head if name == "q" else shape.n_kv)
            _add(writer, f"blk.{number}.{tensor}.weight", weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.replace(folder / "model.gguf")


def weights_of(folder: Path, shape: Shape) -> dict[str, Any]:
    """Read a folder's weights as the trainer lays them out; raises `KeyError` where one is missing."""
    stored = Model(folder / "model.gguf").weights
    layers: dict[str, list[Floats]] = {name: [] for name in TENSORS}
    for number in range(shape.n_layer):
        for name, tensor in TENSORS.items():
            weight = stored[f"blk.{number}.{tensor}.weight"]
            if name in ("q", "k"):
                weight = unpaired(weight, shape.n_head if name == "q" else shape.n_kv)
            layers[name].append(weight)
    stacked = {name: np.stack(weights) for name, weights in layers.items()}
    return {"embed": stored["token_embd.weight"], "norm": stored["output_norm.weight"], "layers": stacked}


def export_pair(state: dict[str, Any], work: Path, out: Path) -> None:
    """Write `out/target` and `out/draft` from a training state, and print their sizes."""
    for name, shape in (("target", TARGET), ("draft", DRAFT)):
        params = jax.tree_util.tree_map(np.asarray, state["params"][name])
        export(params, shape, work, out / name)
        print(f"{name}: {count(params):,} weights")


def _add(writer: gguf.GGUFWriter, name: str, weight: Floats) -> None:
    """Add one tensor: matrices in Q8_0, vectors in F32."""
    weight = np.ascontiguousarray(weight, dtype=np.float32)
    if weight.ndim == 1:
        writer.add_tensor(name, weight)
        return
    kind = gguf.GGMLQuantizationType.Q8_0
    writer.add_tensor(name, gguf.quants.quantize(weight, kind), raw_dtype=kind)
