"""The memory of a process, for bounds and figures."""

from services.local.processes import memory_of


def memory_bytes(pid: int) -> int | None:
    """Own and mapped memory together."""
    memory = memory_of(pid)
    return None if memory is None else sum(memory)
