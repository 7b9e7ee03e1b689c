"""What the machine itself does to a small process, as a stream: see stream_lines.py. PER_SECOND times a second it acknowledges

processor    that it woke up
disk         that a write to the file TOPIC is on the disk
"""

import os
import time

from stream_lines import Arguments, Pace, acknowledged, arguments, until_sigterm, value


def tick(asked: Arguments) -> None:
    fd = os.open(asked.topic, os.O_CREAT | os.O_WRONLY, 0o600) if asked.mode == "disk" else None
    pace = Pace(asked.per_second)
    while not over.is_set():
        for sequence in pace.due():
            if fd is not None:
                os.pwrite(fd, value(sequence), 0)
                os.fdatasync(fd)
            acknowledged(sequence)
        time.sleep(1 / asked.per_second)


asked, over = arguments(), until_sigterm()
tick(asked)
