"""The processes in which seeds run."""

import gc
import multiprocessing
import threading
from concurrent.futures import ProcessPoolExecutor


def process_pool(workers: int) -> ProcessPoolExecutor:
    """A pool of so many. They are forked, and have what this process has imported: that is a second of CPU for each.

    A process with other threads, such as a worker of pytest, cannot be forked safely. There they import it anew.
    """
    method = "fork" if threading.active_count() == 1 else "spawn"
    # What is there before the first seed stays: no collection need look at it.
    return ProcessPoolExecutor(workers, multiprocessing.get_context(method), initializer=gc.freeze)
