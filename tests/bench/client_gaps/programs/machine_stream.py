"""What the machine itself does to a small process, as a stream: see stream_lines.py. PER_SECOND times a second it acknowledges

processor    that it woke up
disk         that a write to the file TOPIC is on the disk
"""

import os
import time
from pathlib import Path

from stream_lines import Arguments, Pace, acknowledged, arguments, until_sigterm, value


def replace_file(path: Path) -> None:
    """As a checkpoint is written: it waits for the file system's journal, and an overwritten block would not."""
    beside = path.with_suffix(".tmp")
    with open(beside, "wb") as file:
        file.write(value(0))
        file.flush()
        os.fdatasync(file.fileno())
    beside.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


def tick(asked: Arguments) -> None:
    pace = Pace(asked.per_second)
    while not over.is_set():
        for sequence in pace.due():
            if asked.mode == "disk":
                replace_file(Path(asked.topic))
            acknowledged(sequence)
        time.sleep(1 / asked.per_second)


asked, over = arguments(), until_sigterm()
tick(asked)
