"""Greedy texts of real models beside llama-server's: equal, or parted where two tokens score almost the same.

    python -m models.real --peer PATH/llama-server --models FOLDER [--only NAME] [--results FILE]

Both servers get the same ids of 40 prompts, two of them of 8,000 tokens and two of 2,000. Products of
quantised weights round their inputs to 8 bits, so scores differ by more than a near-tie wherever anything is
computed in another order. How much, llama-server says itself: it runs once more with another type of KV.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf

from .asks import Answer, Ours, Peer
from .compare import Distance
from .servers import Place, Running, ours, peer

WRITTEN = 48
CONTEXT = 8192
TIE = 0.05
"""Nats between two candidates that are nearly tied."""
LONG = [8000, 8000, 2000, 2000]
KV, OTHER_KV = "f16", "bf16"
BYTES = re.compile(r"bytes:((?:\\x[0-9a-f]{2})+)")

SHORT = [
    *("The capital of France is", "Once upon a time", "In 1969, the first", "def quicksort(items):\n"),
    *(
        "#include <stdio.h>\n\nint main(",
        "SELECT name, price FROM",
        "Dear Sir or Madam,\n",
        "1, 1, 2, 3, 5, 8,",
    ),
    *("Zutaten für vier Personen:\n", "Il était une fois", "Había una vez", "日本の首都は", "北京是"),
    *("Привет, меня зовут", "مرحبا بك في", "नमस्ते, मेरा नाम", "Olá, tudo bem?", "안녕하세요, 저는"),
    *(
        "The quick brown fox",
        "E = mc^2 means that",
        "The opposite of hot is",
        "<html>\n<head>\n",
        "import numpy as np\n",
    ),
    *(
        "Q: Who wrote Hamlet?\nA:",
        "To be, or not to be,",
        "The three primary colours are",
        "x = [i for i in range(",
    ),
    *(
        '{"name": "Ada", "age":',
        "- [ ] Buy milk\n- [ ]",
        "Water boils at",
        "🙂🙃🙂🙃",
        "fn main() {\n    let",
    ),
    *("Roses are red,\n", "Abstract. We present", "The answer to 12 * 12 is", "git commit -m"),
]
TEXT = (
    "Chapter {n}. The harbour of Oldwick has {m} boats, and each has a name that somebody gave it long ago. "
)


def table(model: Path) -> dict[bytes, int]:
    """Ids of a model's tokens by the bytes that they stand for."""
    fields = gguf.GGUFReader(model).fields
    listed, kind = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.model"].contents()
    ids: dict[bytes, int] = {}
    for index, part in enumerate(listed.data):
        text = bytes(listed.parts[part]).decode()
        if found := re.fullmatch("<0x([0-9A-F]{2})>", text):
            ids.setdefault(bytes.fromhex(found[1]), index)
        elif kind == "gpt2" and all(c in ALPHABET for c in text):
            ids[bytes(ALPHABET[c] for c in text)] = index
        else:
            ids[text.replace("▁", " ").encode()] = index
    return ids


def alphabet() -> dict[str, int]:
    """GPT-2's letters for bytes: most stand for themselves, the others follow from U+0100 on."""
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in own]
    return {chr(byte): byte for byte in own} | {chr(256 + n): byte for n, byte in enumerate(others)}


ALPHABET = alphabet()


@dataclass(frozen=True)
class RealOurs(Ours):
    """Our server on a model whose tokens are known by their bytes."""

    table: dict[bytes, int]

    def read(self, choice: dict[str, Any], usage: dict[str, Any]) -> Answer:
        """A choice as the API writes it."""
        scores = choice["logprobs"]
        tops = [{self._id(text): s for text, s in each.items()} for each in scores["top_logprobs"]]
        tokens = [self._id(text) for text in scores["tokens"]]
        return Answer(choice["text"], tokens, scores["token_logprobs"], tops, choice["finish_reason"], usage)

    def _id(self, text: str) -> int:
        found = BYTES.fullmatch(text)
        return self.table[bytes.fromhex(found[1].replace("\\x", "")) if found else text.encode()]


def prompts(server: Running, long: list[int]) -> Iterator[tuple[str, list[int]]]:
    """Names and ids of all prompts."""
    for text in SHORT:
        yield text, ids(server, text)
    text = "".join(TEXT.format(n=n, m=n * 7 % 90 + 3) for n in range(600))
    every = ids(server, text)
    for number, length in enumerate(long):
        # The first id may begin every text.
        yield f"{length} tokens, {number}", every[:1] + every[number * 97 + 1 : number * 97 + length]


def ids(server: Running, text: str) -> list[int]:
    """A text's ids, as our server has them."""
    found: list[int] = server.post("/tokenize", {"prompt": text})["tokens"]
    return found


def compare(model: Path, program: str, place: Place, long: list[int]) -> dict[str, Any]:
    """All prompts of a model."""
    config = {"kv_cache_max_tokens": CONTEXT, "max_batch_size": 1, "engine": {"context": CONTEXT}}
    places = [Place(place.port + number, place.folder) for number in range(3)]
    flags = ["-c", str(CONTEXT), "-t", "2"]
    told: dict[str, Any] = {
        "model": model.stem,
        "equal": 0,
        "ties": 0,
        "tokens": 0,
        "noise": [],
        "parted": [],
    }
    with (
        ours([model], config, places[0]) as one,
        peer(program, model, KV, places[1], flags) as two,
        peer(program, model, OTHER_KV, places[2], flags) as three,
    ):
        mine, theirs, again = RealOurs(one, {}, table(model)), Peer(two), Peer(three)
        for name, prompt in prompts(one, long):
            # The text up to where it parts: behind that, it is another one.
            answer, distance, noise = theirs.complete(prompt, WRITTEN), Distance(), Distance()
            if len(prompt) not in long:
                noise.add(again.complete(prompt, 1), answer)
                told["noise"].append(noise.drift)
            distance.add(mine.complete(prompt, WRITTEN), answer)
            told["tokens"] += distance.tokens
            told["equal"] += distance.parted == 0
            told["ties"] += distance.parted > 0 and distance.gap <= TIE
            if distance.gap > TIE:
                told["parted"].append((name, distance.gap, distance.where[-1]))
            print(f"{name[:30]!r}: {distance.tokens} tokens; {distance.where}", flush=True)
    return told


def main() -> None:
    """Compares every model of a folder, and writes what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--models", required=True, type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--long", type=int, nargs="*", default=LONG, help="tokens of the long prompts")
    parser.add_argument("--results", type=Path, default=Path(".build/real.json"))
    parser.add_argument("--port", type=int, default=3280)
    args = parser.parse_args()
    found = []
    for model in sorted(args.models.glob("*.gguf")):
        if args.only not in model.stem:
            continue
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            found.append(compare(model, args.peer, Place(args.port, Path(folder)), args.long))
        found[-1]["seconds"] = round(time.monotonic() - begin)
        args.results.write_text(json.dumps(found, indent=1))
        print(json.dumps(found[-1], indent=1))


if __name__ == "__main__":
    main()
