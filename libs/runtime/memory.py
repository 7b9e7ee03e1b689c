"""Memory that the process holds and does not use."""

import ctypes
from collections.abc import Callable


def _malloc_trim() -> Callable[[int], int] | None:
    """glibc's `malloc_trim`. Other C libraries keep less memory, and lack it."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None


_trim = _malloc_trim()


def give_back_memory() -> None:
    """Gives freed memory back to the kernel. glibc keeps freed blocks below others in use: hundreds of MB after a burst of large
    requests. Takes milliseconds."""
    if _trim is not None:
        _trim(0)
