"""The stand-in for PyTorch: results as the real one gives them, and the mistakes that it finds."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from server.serving import serving

from .conftest import FAKE
from .live import Folder

MASKS = """
import sys, numpy, torch
device = "cuda" if torch.cuda.is_available() else "cpu"
words = numpy.array([[5, -(1 << 31), 7], [-1, 0, 1]], "<i4")
packed = torch.frombuffer(bytearray(words.tobytes()), dtype=torch.int32).to(device)
shifts = torch.arange(32, dtype=torch.int32, device=device)
bits = (packed.view(-1, 1) >> shifts) & 1
allowed = bits.bool().view(2, -1)[:, :90]
forbidden = (bits == 0).view(2, -1)[:, :90]
assert torch.logical_not(allowed).tolist() == forbidden.tolist() == (~allowed).tolist()
logits = torch.arange(180, dtype=torch.float32, device=device).view(2, 1, 90)
one = logits[1:2].narrow(2, 3, 4)
logits.masked_fill_(forbidden.view(2, 1, 90), float("-inf"))
out = [logits.cpu().numpy().tolist(), one.shape[-1], one.cpu().tolist(), logits.stride()]
out += [logits.element_size()]
out += [str(logits.dtype), str((logits[0] / 2).dtype), str((packed / 2).dtype), str((packed * 2).dtype)]
out += [torch.cat([packed, packed]).view(torch.uint8).cpu().tolist()]
out += [torch.where(allowed, 1.0, 0.0).sum().item()]
out += [logits.argmax(dim=-1).tolist(), torch.tensor([1.5, 2.0]).half().dtype is torch.float16]
out += [packed.unsqueeze(-1).expand(6, 2).contiguous().view(-1).tolist()]
out += [torch.stack([packed, packed]).shape[0], torch.finfo(torch.float16).max]
out += [torch.full((2,), 7, dtype=torch.int64).tolist(), torch.zeros(2, 3)[0].numel()]
out += [torch.log_softmax(torch.tensor([[0.0, 1.0]]), dim=-1).numpy().round(4).tolist()]
kept = torch.zeros(4); kept[1:3] = 5; kept[torch.tensor([0, 3])] += 1; kept[2].fill_(9)
out += [kept.tolist(), torch.as_tensor([1, 2]).dtype is torch.int64]
out += [kept.index_select(0, torch.tensor([3, 1])).tolist()]
print(out)
"""
"""What an adapter does with masks, and around it."""


def run(path: Path | None) -> str:
    command = [sys.executable, "-W", "ignore", "-c", MASKS]
    environment = os.environ | ({"PYTHONPATH": str(path)} if path else {})
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def real_torch() -> Path | None:
    """Where PyTorch is installed, behind the stand-in."""
    path, sys.path[:] = list(sys.path), [entry for entry in sys.path if entry != str(FAKE)]
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "torch"}
    try:
        found = importlib.util.find_spec("torch")
    finally:
        sys.path[:] = path
        sys.modules.update(kept)
    return Path(found.origin).parents[1] if found and found.origin else None


REAL = real_torch()
with_torch = pytest.mark.skipif(REAL is None, reason="skipped: PyTorch is not installed")


@with_torch
def test_results_are_pytorch_s() -> None:
    assert run(FAKE) == run(None)


@with_torch
def test_the_fake_runs_on_pytorch(tmp_path: Path) -> None:
    """The tests of drafts and requests once more, with tensors of the real library on the CPU."""
    (tmp_path / "tensorrt_llm").symlink_to(FAKE / "tensorrt_llm")
    own = Path(__file__).parent
    code = f"""
import sys, pytest
sys.path.insert(0, {str(tmp_path)!r})
import torch, contextlib
assert not torch.__version__.endswith("standin")
torch.cuda.ExternalStream = lambda pointer: contextlib.nullcontext()
torch.cuda.stream = lambda stream: stream
files = [{str(own / "test_trtllm_drafts.py")!r}, {str(own / "test_trtllm_requests.py")!r}]
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *files]))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@with_torch
def test_the_server_s_masks_are_made_by_pytorch(tmp_path: Path) -> None:
    assert REAL is not None
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "tensorrt_llm").symlink_to(FAKE / "tensorrt_llm")
    target = str(Folder(draft_len=6).write(tmp_path / "target"))
    draft = str(Folder(blur=8.0).write(tmp_path / "draft"))
    config = {"speculative": {"draft_model": draft, "adaptive": False}}
    asked: dict[str, Any] = {"prompt": "a text", "max_tokens": 60, "temperature": 0}
    kinds: list[dict[str, Any]] = [{}, {"response_format": {"type": "regex", "regex": "(ab|cd){9,30}"}}]
    path = [tmp_path / "path", REAL]
    with serving(target, config=config, path=path) as server, serving("toy") as embedded:
        for one in (server, embedded):
            one.wait_ready()
        for kind in kinds:
            mine, theirs = (
                s.http.post("/v1/completions", json=asked | kind).json() for s in (server, embedded)
            )
            assert mine["choices"] == theirs["choices"]
        assert server.fates("draft_model")["accepted"] > 0
        maps = [Path(f"/proc/{pid}/maps").read_text() for pid in server.children()]
        assert any("libtorch" in one for one in maps)


def test_masks_of_an_adapter() -> None:
    out: Any = eval(run(FAKE), {"inf": float("inf"), "nan": float("nan")})  # its own output
    rows = np.array(out[0])[:, 0]
    allowed = np.isfinite(rows)
    assert [np.flatnonzero(row).tolist() for row in allowed] == [[0, 2, 63, 64, 65, 66], [*range(32), 64]]
    assert rows[1, 64] == 154.0


def test_devices_are_kept_apart() -> None:
    here, there = torch.zeros(3), torch.zeros(3, device="cuda")
    assert (here.device, str(there.device), there.is_cuda) == (torch.device("cpu"), "cuda:0", True)
    with pytest.raises(RuntimeError, match="same device"):
        there.add_(here)
    there.add_(torch.tensor(2.0))  # a number may come from anywhere
    with pytest.raises(TypeError, match=r"Tensor\.cpu"):
        there.numpy()
    assert there.cpu().tolist() == [2.0] * 3
    with pytest.raises(RuntimeError, match="pin"):
        there.pin_memory()
    with pytest.raises(RuntimeError, match="boolean"):
        here.masked_fill_(torch.tensor([1, 0, 1]), 1.0)
    with pytest.raises(TypeError, match="can't convert"):
        torch.from_numpy(np.zeros(3, np.uint32))


def test_streams_wait_where_they_are_told_to() -> None:
    one, two = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(one):
        tensor = torch.ones(4, device="cuda")
    with torch.cuda.stream(two):
        with pytest.raises(RuntimeError, match="a race"):
            tensor.add_(1.0)
        two.wait_stream(one)
        tensor.add_(1.0)
    with torch.cuda.stream(one), pytest.raises(RuntimeError, match="a race"):
        tensor.mul_(2.0)
    event = two.record_event()
    one.wait_event(event)
    with torch.cuda.stream(torch.cuda.ExternalStream(one.cuda_stream)):
        tensor.mul_(2.0)
    one.synchronize()
    assert tensor.tolist() == [4.0] * 4
    with pytest.raises(RuntimeError, match="no stream"):
        torch.cuda.ExternalStream(12345)


def test_copies_from_pinned_memory_go_on_until_the_stream_is_done() -> None:
    stream, pinned = torch.cuda.Stream(), torch.zeros(8).pin_memory()
    assert pinned.is_pinned()
    with torch.cuda.stream(stream):
        there = torch.empty(8, device="cuda").copy_(pinned, non_blocking=True)
        stream.synchronize()
        pinned.fill_(1.0)
        there.copy_(pinned, non_blocking=True)
        pinned.fill_(2.0)
    with pytest.raises(RuntimeError, match="pinned memory was changed"):
        stream.synchronize()
