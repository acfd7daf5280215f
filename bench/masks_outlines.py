"""Masks by outlines-core: `python bench/masks_outlines.py tokenizer.json walks.jsonl`.

A walk is a line `{"schema", "tokens"}`. Prints what masks.rs prints of an engine. Each schema is compiled and
walked in a child that is ended after `PATIENCE`, since a compilation may take minutes; its time then counts.
Exits with 3 where the wheel `outlines-core` is not there.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from alphabet import byte_alphabet

PATIENCE = 20.0
MISSING = 3


def vocabulary(file: Path) -> tuple[Any, int]:
    """The vocabulary as outlines-core wants it, and how many tokens there are."""
    from outlines_core import Vocabulary

    tables = json.loads(file.read_text())
    bytes_of = {letter: b for b, letter in enumerate(byte_alphabet())}
    words: dict[str | bytes, list[int]] = {}
    for text, token in tables["model"]["vocab"].items():
        words.setdefault(bytes(bytes_of[letter] for letter in text), []).append(token)
    specials = [entry["id"] for entry in tables["added_tokens"]]
    return Vocabulary(max(specials), words), max(specials) + 1


def walk(schema: Any, tokens: list[int], vocab: Any, size: int) -> tuple[list[float], bool]:
    """Microseconds to the first mask and of each further one, and whether every token was allowed."""
    from outlines_core import Guide, Index, json_schema

    words = (ctypes.c_uint32 * -(-size // 32))()
    times = []
    begun = time.perf_counter()
    guide = Guide(Index(json_schema.build_regex_from_schema(json.dumps(schema)), vocab))
    for token in tokens:
        guide.write_mask_into(ctypes.addressof(words), len(words), 4)
        times.append((time.perf_counter() - begun) * 1e6)
        if not words[token // 32] >> token % 32 & 1:
            return times, False
        begun = time.perf_counter()
        guide.advance(token, False)
    return times, True


def child(pipe: Connection, *args: Any) -> None:
    """Sends what `walk` gives, or nothing where the schema is refused."""
    try:
        pipe.send(walk(*args))
    except Exception:
        # Whatever it says: a schema that it does not take.
        pipe.send(None)


def attempt(*args: Any) -> tuple[list[float], bool] | None:
    """What `walk` gives, or none for a refused schema; raises `TimeoutError` where it takes too long."""
    fork = get_context("fork")
    here, there = fork.Pipe()
    process = fork.Process(target=child, args=(there, *args))
    process.start()
    there.close()
    try:
        if not here.poll(PATIENCE):
            raise TimeoutError
        found: tuple[list[float], bool] | None = here.recv()
    except EOFError:  # it was ended, say for its memory
        return None
    finally:
        process.kill()
        process.join()
    return found


def spread(micros: list[float]) -> dict[str, float] | None:
    """As masks.rs has it: nearest ranks."""
    if not micros:
        return None
    ordered, count = sorted(micros), len(micros)
    ranks = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
    at = {name: ordered[max(1, -int(-count * share // 1)) - 1] for name, share in ranks.items()}
    return {"mean": sum(ordered) / count} | at | {"max": ordered[-1], "count": count}


def main() -> int:
    """Walks everything."""
    try:
        vocab, size = vocabulary(Path(sys.argv[1]))
    except ImportError:
        return MISSING
    masks: list[float] = []
    compiles: list[float] = []
    refused = left = late = 0
    for line in Path(sys.argv[2]).read_text().splitlines():
        case = json.loads(line)
        try:
            found = attempt(case["schema"], case["tokens"], vocab, size)
        except TimeoutError:
            late += 1
            compiles.append(PATIENCE * 1e6)
            continue
        if found is None:
            refused += 1
        else:
            compiles += found[0][:1]
            masks += found[0][1:]
            left += not found[1]
    name = f"outlines-core ({late} given up after {PATIENCE:g} s)"
    parts = {"mask_us": spread(masks), "compile_us": spread(compiles), "refused": refused, "left": left}
    print(json.dumps({"engine": name} | parts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
