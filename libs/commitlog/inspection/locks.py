"""The user of a log directory, found without taking its lock."""

import os


def lock_holder(path: str) -> int | None:
    """The process, Penstock's or Kafka's, that holds the `.lock` of a log directory.

    None if there is none, or if the kernel does not tell.
    """
    try:
        status = os.stat(f"{path}/.lock")
        file_id = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        with open("/proc/locks", encoding="utf-8") as table:
            for line in table:
                # 1: FLOCK  ADVISORY  WRITE 13629 fe:00:9996621 0 EOF      (a line of a waiting process has an arrow after the
                # number)
                fields = line.split()
                if "->" not in fields and fields[1] in ("FLOCK", "POSIX") and fields[5] == file_id:
                    return int(fields[4])
    except (OSError, ValueError, IndexError):
        pass
    return None
