"""What a server has started, and where it listens."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

_LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
"""Local addresses as /proc/net writes them."""

_LISTENS = "0A"


def family(pid: int) -> set[int]:
    """The processes that a process has started, and theirs."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    found, more = set(), {pid}
    while more:
        found |= more
        more = {child for child, parent in parents.items() if parent in more}
    return found - {pid}


def alive(pid: int) -> bool:
    """Whether it runs still."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def open_to_others(pids: set[int]) -> list[str]:
    """Sockets of these processes on which other machines could reach them."""
    inodes: dict[str, str] = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            address, state, inode = fields[1].partition(":")[0], fields[3], fields[9]
            if state == _LISTENS and address not in _LOOPBACK:
                inodes[inode] = fields[1]
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            for file in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    is_socket = re.fullmatch(r"socket:\[(\d+)\]", str(file.readlink()))
                    if is_socket and is_socket[1] in inodes:
                        found.append(f"{name} {pid} {inodes[is_socket[1]]}")
    return found
