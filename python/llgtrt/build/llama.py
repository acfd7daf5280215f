"""Engine folders for llama.cpp: `model.gguf` and the other files."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType, quantize
from numpy.typing import NDArray
from tqdm import tqdm

from llgtrt import _core
from llgtrt.build import folder, vocabulary
from llgtrt.build.checkpoint import Checkpoint, Floats
from llgtrt.build.families import Model, Tensor
from llgtrt.settings import StartError

QFORMATS = ("f16", "bf16", "q8_0", "q4_0", "q4_k_m")
DEFAULT = "q8_0"
_PLAIN = {
    "F32": (GGMLQuantizationType.F32, 4, LlamaFileType.ALL_F32),
    "F16": (GGMLQuantizationType.F16, 2, LlamaFileType.MOSTLY_F16),
    "BF16": (GGMLQuantizationType.BF16, 2, LlamaFileType.MOSTLY_BF16),
}
"""Types that are written here, the bytes of one value, and what a file of them is called."""
_BITS = {"q8_0": 8.5, "q4_0": 4.5, "q4_k_m": 4.9}
"""About how much a weight takes; only so that the bar knows its end."""


def build(source: Path, output: Path, qformat: str) -> int:
    """Makes the folder; the exit code.

    Raises:
        StartError: the model or `qformat` is unknown, a file cannot be read or written, or llama.cpp refuses.
    """
    if qformat not in QFORMATS:
        raise StartError(
            f"--qformat: {qformat} is not known to llama.cpp; must be one of {', '.join(QFORMATS)}"
        )
    checkpoint = Checkpoint(source)
    model = Model(checkpoint)
    words = vocabulary.read(source, checkpoint.config)
    if len(words.tokens) > model.rows:
        raise StartError(
            f"{source}/tokenizer.json: has {len(words.tokens)} tokens, the model {model.rows}: "
            "the files belong to different models"
        )
    target, plain, partial = (output / f"model.gguf{end}" for end in ("", ".plain", ".partial"))
    try:
        output.mkdir(parents=True, exist_ok=True)
        if qformat.upper() in _PLAIN:
            _write(partial, model, words, qformat.upper())
        else:
            # As the checkpoint has them: so nothing is lost before it is quantised.
            _write(plain, model, words, checkpoint.kind())
            _quantise(plain, partial, qformat)
        partial.replace(target)
        folder.finish(source, output, checkpoint.config, {})
    except OSError as e:
        raise StartError(f"{output}: cannot be written ({e})") from e
    finally:
        for file in (plain, partial):
            file.unlink(missing_ok=True)
    print(f"{target}: {qformat}, {target.stat().st_size / 2**20:,.1f} MiB; start it: llgtrt serve {output}")
    return 0


def _write(file: Path, model: Model, words: vocabulary.Vocabulary, kind: str) -> None:
    """Writes a GGUF file with matrices of type `kind` and everything else in F32."""
    tensors = model.tensors()
    with contextlib.closing(GGUFWriter(str(file), model.family.arch)) as writer:
        model.describe(writer)
        writer.add_file_type(_PLAIN[kind][2])
        words.write(writer, model.rows)
        for tensor in tensors:
            own = _PLAIN[_kind(tensor, kind)]
            size = math.prod(tensor.shape) * own[1]
            writer.add_tensor_info(tensor.name, tensor.shape, np.dtype(np.float32), size, own[0])
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        total = sum(math.prod(tensor.shape) for tensor in tensors)
        with tqdm(total=total, desc="reading weights", unit="", unit_scale=True, disable=None) as bar:
            for tensor in tensors:
                writer.write_tensor_data(_encoded(tensor, _kind(tensor, kind)))
                bar.update(math.prod(tensor.shape))


def _kind(tensor: Tensor, kind: str) -> str:
    return kind if len(tensor.shape) > 1 else "F32"


def _encoded(tensor: Tensor, kind: str) -> NDArray[np.generic]:
    """The values in the type's bytes.

    Raises:
        StartError: F16 cannot hold one of them.
    """
    values: Floats = np.ascontiguousarray(tensor.read())
    if kind == "F16" and np.abs(values).max(initial=0) > np.finfo(np.float16).max:
        raise StartError(f"--qformat: {tensor.name} has weights that f16 cannot hold; choose bf16 or q8_0")
    encoded: NDArray[np.generic] = quantize(values, _PLAIN[kind][0])
    return encoded


def _quantise(source: Path, target: Path, qformat: str) -> None:
    """Quantises on a thread of its own, beside a bar that shows how much is written.

    Raises:
        StartError: llama.cpp refuses.
    """
    failed: list[_core.CoreError] = []

    def run() -> None:
        try:
            _core.quantize(str(source), str(target), qformat)
        except _core.CoreError as e:
            failed.append(e)

    work = threading.Thread(target=run, daemon=True)
    total = int(source.stat().st_size * _BITS[qformat] / 16)
    work.start()
    try:
        with tqdm(
            total=total, desc=f"quantising to {qformat}", unit="B", unit_scale=True, disable=None
        ) as bar:
            while work.is_alive():
                work.join(0.2)
                if target.exists():
                    bar.update(target.stat().st_size - bar.n)
    except KeyboardInterrupt:
        # The quantiser cannot be stopped: the process ends with it.
        for file in (source, target):
            file.unlink(missing_ok=True)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
        raise
    if failed:
        raise StartError(f"--qformat {qformat}: {failed[0]}") from failed[0]
