"""A disk whose power can be cut: ext4 on a loop device, and what was on it before and after."""

import os
import platform
import subprocess
import tempfile
import time
from pathlib import Path

from tests.support.polling import eventually
from tests.system.faults.small_disks import cut_power

# fsync, fdatasync, syncfs: by what number the kernel knows them
_SYNCS = {"x86_64": ("74", "75", "306"), "aarch64": ("82", "83", "267")}


class Disk:
    def __init__(self, directory: Path, mebibytes: int) -> None:
        self.image, self.at = directory / "disk.img", directory / "disk"
        self.at.mkdir()
        with open(self.image, "wb") as file:
            file.truncate(mebibytes << 20)
        _run("mkfs.ext4", "-q", "-m", "0", str(self.image))
        _run("mount", "-o", "loop", str(self.image), str(self.at))

    def cut(self) -> None:
        cut_power(self.at)

    def power_on(self) -> None:
        """Mounts the disk again once the storage node is gone. A gateway closes its passed files a moment later."""
        eventually(self._unmount)
        _run("mount", "-o", "loop", str(self.image), str(self.at))

    def _unmount(self) -> bool:
        return subprocess.run(["umount", str(self.at)], capture_output=True, timeout=60).returncode == 0

    def close(self) -> None:
        if os.path.ismount(self.at):
            eventually(self._unmount)

    def log_files(self) -> dict[str, int]:
        """The log files of every partition that is not being deleted: path → bytes."""
        found = {}
        for directory in self._partitions():
            for path in _names(directory):
                if path.endswith(".log"):
                    try:
                        found[path] = os.stat(path).st_size
                    except OSError:  # retention was quicker
                        continue
        return found

    def _partitions(self) -> list[str]:
        return [path for path in _names(str(self.at / "logs")) if path.rpartition("-")[2].isdigit()]


def _names(directory: str) -> list[str]:
    try:
        return [f"{directory}/{name}" for name in os.listdir(directory)]
    except OSError:
        return []


def is_syncing(pid: int) -> bool:
    """Whether a thread of the process is inside of fsync, fdatasync or syncfs."""
    syncs = _SYNCS[platform.machine()]
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/syscall", encoding="utf-8") as file:
                if file.read(16).partition(" ")[0] in syncs:
                    return True
    except OSError:
        return False
    return False


def why_no_power_cuts() -> str | None:
    """The reason why this machine cannot cut a disk's power."""
    if os.geteuid() != 0:
        return "mounting file systems takes root"
    if platform.machine() not in _SYNCS:
        return f"the system calls of {platform.machine()} are not known here"
    with tempfile.TemporaryDirectory(prefix="penstock-power-") as name:
        try:
            disk = Disk(Path(name), 8)
        except (AssertionError, OSError) as error:
            return f"no ext4 can be mounted from a file: {error}"
        try:
            disk.cut()
            (disk.at / "after").write_bytes(b"?")
        except OSError as error:
            if error.errno != 5:
                return f"ext4 knows no shutdown: {error}"
            return None
        finally:
            disk.close()
    return "ext4 takes writes after its shutdown"


def sleep_until(moment: float) -> None:
    """Sleeps: a cut comes at its time, whatever happens then."""
    time.sleep(max(0.0, moment - time.monotonic()))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
