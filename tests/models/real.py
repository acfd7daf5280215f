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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .asks import Answer, Ours, Peer
from .compare import TIE, Distance
from .servers import Place, Running, ours, peer

WRITTEN = 48
CONTEXT = 8192
LONG = (8000, 8000, 2000, 2000)
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


@dataclass
class Texts:
    """Ids by the bytes that they stand for, as the other server tells them."""

    ids: dict[bytes, int] = field(default_factory=dict)

    def of(self, text: bytes) -> int:
        """The id of a token that the other server has named; a number of its own where it has not."""
        return self.ids.setdefault(text, -1 - len(self.ids))


@dataclass(frozen=True)
class RealOurs(Ours):
    """Our server on a model whose tokens are known by their bytes alone."""

    texts: Texts = field(default_factory=Texts)

    def read(self, choice: dict[str, Any], usage: dict[str, Any]) -> Answer:
        """A choice as the API writes it."""
        scores = choice["logprobs"]
        tops = [{self._id(text): s for text, s in each.items()} for each in scores["top_logprobs"]]
        tokens = [self._id(text) for text in scores["tokens"]]
        return Answer(choice["text"], tokens, scores["token_logprobs"], tops, choice["finish_reason"], usage)

    def _id(self, text: str) -> int:
        found = BYTES.fullmatch(text)
        return self.texts.of(bytes.fromhex(found[1].replace("\\x", "")) if found else text.encode())


@dataclass(frozen=True)
class RealPeer(Peer):
    """llama-server, from whose answers the ids of texts are learnt."""

    texts: Texts = field(default_factory=Texts)

    def learn(self, each: list[dict[str, Any]]) -> None:
        """Notes what tokens stand for, and their rivals."""
        for token in each:
            for named in (token, *token["top_logprobs"]):
                self.texts.ids[bytes(named["bytes"])] = named["id"]


def prompts(server: Running) -> Iterator[tuple[str, list[int]]]:
    """Names and ids of all prompts."""
    for text in SHORT:
        yield text, ids(server, text)
    text = "".join(TEXT.format(n=n, m=n * 7 % 90 + 3) for n in range(600))
    every = ids(server, text)
    for number, length in enumerate(LONG):
        yield f"{length} tokens, {number}", every[number * 97 : number * 97 + length]


def ids(server: Running, text: str) -> list[int]:
    """A text's ids, as our server has them."""
    found: list[int] = server.post("/tokenize", {"prompt": text, "add_special_tokens": False})["tokens"]
    return found


def compare(model: Path, program: str, place: Place) -> dict[str, Any]:
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
    texts = Texts()
    with (
        ours([model], config, places[0]) as one,
        peer(program, model, KV, places[1], flags) as two,
        peer(program, model, OTHER_KV, places[2], flags) as three,
    ):
        mine, theirs, again = RealOurs(one, {}, texts), RealPeer(two, texts), RealPeer(three, texts)
        for name, prompt in prompts(one):
            # The text up to where it parts: behind that, it is another one.
            answer, distance, noise = theirs.complete(prompt, WRITTEN), Distance(), Distance()
            if len(prompt) < min(LONG):
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
    parser.add_argument("--results", type=Path, default=Path(".build/real.json"))
    parser.add_argument("--port", type=int, default=3280)
    args = parser.parse_args()
    found = []
    for model in sorted(args.models.glob("*.gguf")):
        if args.only not in model.stem:
            continue
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            found.append(compare(model, args.peer, Place(args.port, Path(folder))))
        found[-1]["seconds"] = round(time.monotonic() - begin)
        args.results.write_text(json.dumps(found, indent=1))
        print(json.dumps(found[-1], indent=1))


if __name__ == "__main__":
    main()
