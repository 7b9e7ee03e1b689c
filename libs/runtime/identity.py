"""Who a process is: the incarnation that tells one start from the next, the host that it shares, and its version."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from libs.clock import WallMs
from libs.commitlog.files.durable_files import make_directory, read_file, replace_file
from libs.commitlog.files.filesystem import FileSystem
from libs.runtime.lifecycle import CannotRun

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def host_id() -> str:
    """The same for all processes on one running kernel."""
    return boot_id()


def boot_id() -> str:
    """Another for each start of the kernel, whose page cache lives as long."""
    return _BOOT_ID.read_text(encoding="utf-8").strip()


def own_version() -> str:
    try:
        return version("penstock")
    except PackageNotFoundError:
        return "unknown"  # started from a source tree


class IncarnationDamaged(CannotRun):
    """A file of the last incarnation that holds none."""


def next_incarnation(fs: FileSystem, data_dir: str, now: WallMs) -> int:
    """A number that differs from start to start of a node, and rises: RPC servers refuse whoever comes with an older one.

    Persisted before it is used. The wall clock alone could jump back and repeat one; a counter alone would start anew with an
    emptied disk, and then an old partition state could name a process that knows nothing of it. Raises IncarnationDamaged.
    """
    make_directory(fs, data_dir)
    path = f"{data_dir}/incarnation"
    content = read_file(fs, path)
    try:
        last = int(content) if content else 0
    except ValueError as error:
        raise IncarnationDamaged(
            f"{path} does not hold a number: restore it, or remove it if no other process runs as this node"
        ) from error
    incarnation = max(last + 1, now)
    replace_file(fs, path, f"{incarnation}\n".encode())
    return incarnation
