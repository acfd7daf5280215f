"""Texts in all scripts, always the same ones: what a tokenizer may be given."""

from __future__ import annotations

import random
from collections.abc import Sequence

_SCRIPTS = {
    "Latin": ((0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x17F), (0x1E00, 0x1EFF)),
    "Greek": ((0x391, 0x3A9), (0x3AC, 0x3CE), (0x1F00, 0x1F15)),
    "Cyrillic": ((0x400, 0x45F), (0x48A, 0x4BF)),
    "Armenian": ((0x531, 0x556), (0x561, 0x587)),
    "Georgian": ((0x10D0, 0x10FA),),
    "Hebrew": ((0x5D0, 0x5EA), (0x5B0, 0x5BC)),
    "Arabic": ((0x620, 0x65F), (0x660, 0x669), (0x671, 0x6D3)),
    "Syriac": ((0x710, 0x74A),),
    "Devanagari": ((0x900, 0x963), (0x966, 0x96F)),
    "Bengali": ((0x985, 0x98C), (0x993, 0x9A8), (0x9BE, 0x9C4)),
    "Tamil": ((0xB85, 0xB8A), (0xBAE, 0xBB9), (0xBBE, 0xBC2)),
    "Sinhala": ((0xD85, 0xD96), (0xD9A, 0xDB1)),
    "Thai": ((0xE01, 0xE3A), (0xE40, 0xE4E), (0xE50, 0xE59)),
    "Tibetan": ((0xF40, 0xF47), (0xF71, 0xF7D), (0xF90, 0xF97)),
    "Myanmar": ((0x1000, 0x1049),),
    "Ethiopic": ((0x1200, 0x1248),),
    "Cherokee": ((0x13A0, 0x13F5),),
    "Khmer": ((0x1780, 0x17D3),),
    "Mongolian": ((0x1820, 0x1842),),
    "Hangul": ((0xAC00, 0xD7A3), (0x1100, 0x1112), (0x1161, 0x1175), (0x11A8, 0x11C2)),
    "Kana": ((0x3041, 0x3096), (0x30A1, 0x30FE), (0xFF66, 0xFF9F)),
    "Han": ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0xF900, 0xFA6D)),
    "Gothic": ((0x10330, 0x1034A),),
    "Mathematics": ((0x2200, 0x22FF), (0x1D400, 0x1D454), (0x2070, 0x2089), (0xBC, 0xBE)),
    "Signs": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0xA1, 0xBF), (0x2010, 0x2027), (0x20A0, 0x20BF)),
    "Full width": ((0xFF01, 0xFF5E), (0x3001, 0x301F)),
    "Digits": ((0x30, 0x39),),
    "Hidden": (
        (0x200B, 0x200F),
        (0x202A, 0x202E),
        (0x2060, 0x2064),
        (0xFEFF, 0xFEFF),
        (0x1, 0x8),
        (0x7F, 0x9F),
    ),
    "Own use": ((0xE000, 0xE010), (0xF0000, 0xF0004), (0x10FFFE, 0x10FFFF)),
}
"""Ranges of characters, by script."""
_BLANKS = [
    " ",
    "  ",
    "   ",
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    "\t",
    "\v",
    "\f",
    "\x85",
    "\xa0",
    "\u2003",
    "\u3000",
    "\u2028",
]
_EMOJI = [
    "😀",
    "👍🏽",
    "👩‍👩‍👧‍👦",
    "🏳️‍🌈",
    "🇨🇭🇯🇵",
    "1️⃣",
    "❤️",
    "🧑🏿‍🚀",
    "☺",
    "\u200d",
    "\ufe0f",
    "🏴\U000e0067\U000e0062\U000e007f",
]
_CODE = [
    "def f(x: int) -> str:\n    return f'{x!r:>10}'\n",
    '{"a": [1, 2.5e-10, null], "b": {"c": "\\u00e9\\n"}}',
    '#include <stdio.h>\r\nint main(void) {\r\n\tprintf("%d\\n", 0x1F);\r\n}\r\n',
    "SELECT * FROM t WHERE a <= 'it''s' -- why?\n",
    '<p class="x">a &amp; b</p><br/>\n\n\n',
    "for (;;) { i+=1; } // …\n\t\t\tgoto end;",
    "https://example.org/a%20b?c=d&e=[1]#f",
    "    if a:\n        b()\n\n\n    else:\n\tc()\n",
]
_ENGLISH = (
    "It's the user's; they'LL say we've gone, I'm sure HE'D've known: don't you? "
    "The quick brown fox jumps over 13 lazy dogs — 1234567 times, 3.14159 on average!"
)


def texts(count: int, own: Sequence[Sequence[str]]) -> list[str]:
    """So many different texts. `own`: kinds of tokens that are found by their texts, none of them empty."""
    source = random.Random(20)
    found = dict.fromkeys(["", " ", "\n", "a", " a", "a ", _ENGLISH, *_EMOJI, *_CODE, *_BLANKS])
    while len(found) < count:
        make = _MAKERS[len(found) % len(_MAKERS)]
        text = make(source)
        if source.random() < 0.3:
            text = _with(source, text, own)
        found[text] = None
    return list(found)[:count]


def _letters(source: random.Random, name: str, count: int) -> str:
    ranges = _SCRIPTS[name]
    return "".join(chr(source.randint(*source.choice(ranges))) for _ in range(count))


def _word(source: random.Random) -> str:
    return _letters(source, source.choice(list(_SCRIPTS)), source.randint(1, 9))


def _script(source: random.Random) -> str:
    """Words of one script."""
    name = source.choice(list(_SCRIPTS))
    return " ".join(_letters(source, name, source.randint(1, 9)) for _ in range(source.randint(1, 12)))


def _mixed(source: random.Random) -> str:
    """Words of several scripts, emoji and pieces of English, with anything or nothing between them."""
    parts = []
    for _ in range(source.randint(2, 12)):
        start = source.randrange(len(_ENGLISH))
        parts.append(source.choice([_word(source), source.choice(_EMOJI), _ENGLISH[start : start + 12]]))
        parts.append(source.choice([" ", "", *_BLANKS]))
    return "".join(parts)


def _blank(source: random.Random) -> str:
    """Runs of white space of all kinds around words."""
    return "".join(
        source.choice([source.choice(_BLANKS) * source.randint(1, 5), _word(source), "a", ".", "1"])
        for _ in range(source.randint(1, 15))
    )


def _marked(source: random.Random) -> str:
    """Letters with combining marks, in orders that are not the canonical one too."""
    marks = [
        chr(code) for code in (*range(0x300, 0x315), 0x323, 0x328, 0x345, 0x5B0, 0x64B, 0x93C, 0x3099, 0x20D0)
    ]
    return "".join(
        source.choice("aeiouAEIOUnçőαиがक가 ") + "".join(source.choices(marks, k=source.randint(0, 3)))
        for _ in range(source.randint(1, 20))
    )


def _code(source: random.Random) -> str:
    """Pieces of source code, cut anywhere."""
    whole = "".join(source.sample(_CODE, 3))
    start = source.randrange(len(whole))
    return whole[start : start + source.randint(1, 80)]


def _numbers(source: random.Random) -> str:
    """Numbers of many lengths, in digits of several scripts, with signs between them."""
    digits = source.choice(["0123456789", "٠١٢٣٤٥٦٧٨٩", "०१२३४५६७८९", "０１２３４５６７８９", "Ⅳ½²一"])
    return "".join(
        source.choice(["", " ", "-", "$"])
        + "".join(source.choices(digits, k=source.randint(1, 12)))
        + source.choice(",.:% \n")
        for _ in range(source.randint(1, 6))
    )


def _long(source: random.Random) -> str:
    """A word that is longer than any token, of one letter or of many."""
    name = source.choice(list(_SCRIPTS))
    letters = _letters(source, name, source.choice([1, 2, 300]))
    return letters * (source.randint(200, 900) // len(letters))


def _any(source: random.Random) -> str:
    """Characters from everywhere, unassigned ones too."""
    codes = [
        source.randrange(0x110000 if source.random() < 0.5 else 0x3000) for _ in range(source.randint(1, 30))
    ]
    return "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)


def _with(source: random.Random, text: str, own: Sequence[Sequence[str]]) -> str:
    """The text with texts of tokens in it, whole ones and cut ones."""
    for _ in range(source.randint(1, 3)):
        token = source.choice(source.choice(own))
        at = source.randint(0, len(text))
        text = (
            text[:at]
            + source.choice([token, token, " " + token, token + "\n", token[:-1], token * 2])
            + text[at:]
        )
    return text


_MAKERS = (_script, _mixed, _blank, _marked, _code, _numbers, _long, _any)
