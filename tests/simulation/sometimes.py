"""Rare paths that a set of seeds must have taken; a path that is never taken proves nothing."""

from collections import Counter


class Sometimes:
    """Counts how often each named thing happened. One per run; runs are merged."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def __call__(self, name: str, happened: bool = True) -> None:
        if happened:
            self.counts[name] += 1

    def missing(self, names: tuple[str, ...]) -> list[str]:
        return [name for name in names if not self.counts[name]]


POINTS = (
    "data lost although the file was longer",
    "page torn",
    "page dropped between pages that were kept",
    "file grew with zeros",
    "directory entry lost",
    "rename lost",
    "unlink lost",
    "torn tail cut",
    "whole segments cut",
    "resume point lost",
    "resume point used",
    "log read from its beginning",
    "crash during a sync round",
    "crash during a truncation",
    "crash during an append that rolled",
    "crash during a recovery",
    "crash during a partition's creation",
    "crash during a partition's deletion",
    "crash during a clean close",
    "killed, and the power cut after the recovery",
    "opened clean",
    "append while a round ran",
    "round captured while batches were staged",
    "roll between capture and mark",
    "truncation between capture and mark",
    "syncfs instead of fdatasync",
    "unsynced records survived",
    "unsynced records were lost",
    "failed fsync dropped data",
    "failed fsync served what it dropped",
    "disk full",
    "short write",
    "log failed until it is opened again",
    "a refused append left batches",
    "duplicate recognised after recovery",
    "open transaction recovered",
    "aborted transaction recovered",
    "aborted transaction recovered from its index",
    "epoch without records forgotten",
    "append amid upkeep",
    "segments retired",
    "start held after a crash",
    "announced start held after a crash",
    "segments before the start went at an opening",
    "compaction began",
    "several segments became one",
    "a log was cleaned again",
    "segments swapped",
    "a swap was refused",
    "crash between the names of a swap",
    "crash amid a swap showed the sources",
    "crash amid a swap showed the output",
    "recovered in a child process",
    "child process killed amid a recovery",
    "crash while a log start is written",
    "crash while old files are removed",
    "crash while a log is cleaned",
    "crash while a swap is staged",
    "crash while a swap is settled",
    "crash while a cleaned offset is written",
    "a replica left and came back",
    "a topic was made anew under a compacted name",
    "a directory was removed by hand",
)
