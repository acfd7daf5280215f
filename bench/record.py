"""What a measurement leaves: tables on the terminal, JSON and SVG in `bench/results/`."""

from __future__ import annotations

import json
import platform
import subprocess
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "results"


@dataclass
class Table:
    """Rows under a header."""

    title: str
    header: list[str]
    rows: list[list[str]] = field(default_factory=list)

    def markdown(self) -> str:
        """As Markdown; columns as wide as their widest cell."""
        lines = [self.header, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.header))]
        text = [
            "| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |" for line in lines
        ]
        text.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
        return f"{self.title}\n\n" + "\n".join(text) + "\n"


@dataclass
class Record:
    """A measurement's results; `plots` are SVG texts by name."""

    name: str
    tables: list[Table] = field(default_factory=list)
    plots: dict[str, str] = field(default_factory=dict)
    data: Any = None

    def save(self) -> None:
        """Prints the tables and writes the files."""
        FOLDER.mkdir(exist_ok=True)
        about = machine()
        stem = f"{self.name}-{about['date'].replace(':', '')}"
        content = about | {"tables": [vars(table) for table in self.tables], "data": self.data}
        (FOLDER / f"{stem}.json").write_text(json.dumps(content, indent=1))
        for name, svg in self.plots.items():
            (FOLDER / f"{stem}-{name}.svg").write_text(svg)
        for table in self.tables:
            print(table.markdown())
        print(f"{about['date']}, {about['cores']} cores, {about['cpu']}, {about['commit']}")
        print(f"{FOLDER}/{stem}.*")


def machine() -> dict[str, Any]:
    """When, on what kind of machine, and of which versions."""
    info = Path("/proc/cpuinfo")
    models = (
        [line for line in info.read_text().splitlines() if line.startswith("model name")]
        if info.exists()
        else []
    )
    commit = output("git", "-C", str(FOLDER.parent), "describe", "--always", "--dirty")
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds").removesuffix("+00:00"),
        "cores": len(models) or 1,
        "cpu": models[0].split(":")[1].strip() if models else platform.machine(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "rustc": output("rustc", "--version"),
        "commit": commit,
    }


def output(*command: str) -> str:
    """What a command prints; empty where it is not there."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def number(value: float | None) -> str:
    """Three digits that say something; empty where there is no value."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
