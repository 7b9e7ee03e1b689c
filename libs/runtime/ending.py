"""The end of a process, without the tenth of a second of CPU in which the interpreter takes all modules and objects apart."""

import logging
import os
import sys
import threading
from collections.abc import Callable
from typing import NoReturn


def run_program(main: Callable[[], int | None]) -> NoReturn:
    """Runs `main`, and ends the process with the code that it returns, or that its SystemExit has. Other exceptions pass.

    Contexts and `finally` blocks within `main` have run by then. Finalizers of what is still there, and functions that were
    registered with `atexit`, do not run: the kernel frees memory, descriptors and locks.
    """
    try:
        code = main()
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    leave(code or 0)


def leave(code: int) -> NoReturn:
    """Ends the process now. Where a thread still works, or output cannot be written, the interpreter ends it in its usual way: it
    waits for the thread, and tells what is lost by its words and its exit code of 120."""
    if any(each is not threading.main_thread() and not each.daemon for each in threading.enumerate()):
        sys.exit(code)
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue  # it was closed before the start
        try:
            stream.flush()
        except (OSError, ValueError):
            sys.exit(code)
    os._exit(code)
