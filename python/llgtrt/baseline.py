"""Whether this processor has the instructions that the extension is made of.

A wheel says in `baseline.txt` for what kind of processors it was compiled. An extension that was built
where it runs comes without that file.
"""

from __future__ import annotations

from pathlib import Path

_NEEDED = frozenset(["abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"])
"""Of x86-64-v3, beyond what every processor of 64 bits has, as Linux names them."""


def check(package: Path, processors: Path = Path("/proc/cpuinfo")) -> None:
    """Looks before the extension is loaded, which would end the process.

    Raises:
        ImportError: an instruction is missing.
    """
    if not (package / "baseline.txt").exists():
        return
    lines = processors.read_text().splitlines()
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), [])
    missing = sorted(_NEEDED.difference(flags))
    if missing:
        message = f"this processor lacks {', '.join(missing)}, which the wheel needs; start from the source"
        raise ImportError(f"{message}: ./launch/launch-llgtrt.sh builds for the processor it runs on")
