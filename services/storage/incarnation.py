"""A number that differs from start to start of a node, and rises."""

from libs.clock import WallMs
from libs.commitlog.durable_files import read_file, replace_file
from libs.commitlog.filesystem import FileSystem


def next_incarnation(fs: FileSystem, path: str, now: WallMs) -> int:
    """Persisted before it is used. The wall clock alone could jump back and repeat one; a counter alone would start anew
    with an emptied disk, and then an old partition state could name a process that knows nothing of it."""
    content = read_file(fs, path)
    try:
        last = int(content) if content else 0
    except ValueError as error:
        raise SystemExit(
            f"{path} does not hold a number: restore it, or remove it if no other process runs as this node"
        ) from error
    incarnation = max(last + 1, now)
    replace_file(fs, path, f"{incarnation}\n".encode())
    return incarnation
