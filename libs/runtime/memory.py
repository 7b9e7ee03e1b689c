"""Memory that the process holds and does not use."""

import ctypes
from collections.abc import Callable


def _malloc_trim() -> Callable[[int], int] | None:
    """glibc's; other C libraries keep less, and have none."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None


_trim = _malloc_trim()


def give_back_memory() -> None:
    """glibc keeps freed blocks below others that live: after a burst of large requests hundreds of MB. Takes milliseconds."""
    if _trim is not None:
        _trim(0)
