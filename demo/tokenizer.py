"""Trains the tokenizer: byte-level BPE whose words look the same after a space, a quote or a bracket.

Merges are learned on text cut so that a space or a mark never joins a letter. `Marek` then has the same
pieces in `is Marek` and in `"Marek"`, which makes copying a matter of repeating tokens. Only afterwards the
commonest lower-case words get one more, last-ranked merge with the space before them. At run time the text
is cut by the expression of llama.cpp's pre-tokenizer `qwen2`, with the same result.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers
from tokenizers import decoders as decoding

from demo.corpus import conversations
from demo.model import CONTEXT, VOCAB_SIZE

PRE = "qwen2"
RUN_REGEX = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
    r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LEARN_REGEX = r"\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+"
END_OF_TEXT, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIAL = [END_OF_TEXT, START, END]
SPACED_WORDS = 320
TEMPLATE = (Path(__file__).parent / "template.j2").read_text()


def cut(regex: str) -> Any:
    """Make a pre-tokenizer: pieces of `regex`, their bytes as printable characters."""
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(regex), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def learn(texts: list[str]) -> Tokenizer:
    """Learn the tokenizer of `texts`, with exactly `VOCAB_SIZE` ids."""
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = cut(LEARN_REGEX)
    size = VOCAB_SIZE - SPACED_WORDS - len(SPECIAL)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
        max_token_length=14,
    )
    raw.train_from_iterator(texts, trainer)
    learned = json.loads(raw.to_str())["model"]
    vocab: dict[str, int] = learned["vocab"]
    merges: list[tuple[str, str]] = [(a, b) for a, b in learned["merges"]]
    words = Counter(
        word
        for text in texts
        for word in text.split(" ")[1:]
        if word.isascii() and word.islower() and word.isalpha()
    )
    spaced = [word for word, _ in words.most_common() if word in vocab][:SPACED_WORDS]
    for word in spaced:
        vocab["Ġ" + word] = len(vocab)
        merges.append(("Ġ", word))
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = cut(RUN_REGEX)
    tokenizer.decoder = decoding.ByteLevel()
    unused = VOCAB_SIZE - len(vocab) - len(SPECIAL)
    tokenizer.add_special_tokens(SPECIAL + [f"<|unused_{i}|>" for i in range(unused)])
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """Write `tokenizer.json`, `tokenizer_config.json` and `generation_config.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": False,
        "add_prefix_space": False,
        "bos_token": None,
        "eos_token": END,
        "pad_token": END_OF_TEXT,
        "unk_token": None,
        "clean_up_tokenization_spaces": False,
        "model_max_length": CONTEXT,
        "chat_template": TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    ends = [tokenizer.token_to_id(END), tokenizer.token_to_id(END_OF_TEXT)]
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}, indent=2) + "\n")


def train(folder: Path, count: int = 3000) -> Tokenizer:
    """Learn from `count` conversations of the seen half and save to `folder`."""
    texts = ["".join(text for text, _ in talk.spans()) for talk in islice(conversations(seed=1), count)]
    for special in SPECIAL:
        texts = [text.replace(special, "\n") for text in texts]
    tokenizer = learn(texts)
    save(tokenizer, folder)
    return tokenizer
