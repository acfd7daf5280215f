from __future__ import annotations


def byte_alphabet() -> list[str]:
    """The characters that stand for the 256 bytes in a byte-level vocabulary (Radford et al. 2019)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(rest)) for b in range(256)]
