"""What the kernel counts of processes besides CPU time: context switches, and bytes that a disk really read for them."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

PROC = Path("/proc")
SWITCHES = re.compile(r"^(?:non)?voluntary_ctxt_switches:\s*(\d+)", re.MULTILINE)
DISK_READS = re.compile(r"^read_bytes: (\d+)", re.MULTILINE)


def switches_of(pids: Mapping[str, int]) -> int:
    """Context switches of all threads that live, voluntary or not."""
    total = 0
    for pid in pids.values():
        for task in os.listdir(PROC / str(pid) / "task"):
            try:
                status = (PROC / str(pid) / "task" / task / "status").read_text(encoding="utf-8")
            except (FileNotFoundError, ProcessLookupError):
                continue  # a thread that ended meanwhile
            total += sum(map(int, SWITCHES.findall(status)))
    return total


def disk_reads_of(pids: Mapping[str, int]) -> int:
    """Bytes that came from a disk because one of the processes asked, readahead included. What the page cache had is none."""
    total = 0
    for pid in pids.values():
        found = DISK_READS.search((PROC / str(pid) / "io").read_text(encoding="utf-8"))
        assert found is not None, f"/proc/{pid}/io has no read_bytes"
        total += int(found[1])
    return total
