"""What the kernel shows of this process: its arguments and its environment, which may be replaced in place.

They lie in the process's own memory, one after the other, as `execve` laid them out (proc(5)). They can be replaced by others
that are not longer, without any privilege. What is left over is NULs: `ps` does not show them.
"""

import os
from collections.abc import Mapping, Sequence

from services.local import processes

PADDING = "PADDING"
"""The beginning of the names of the variables that keep room for the environment of another process."""
PADDING_BYTES = 100_000
"""The bytes in each of them. The kernel takes 131,072 in a variable, with its name (MAX_ARG_STRLEN in execve(2))."""
FIRST_BOUND = 45
"""Of /proc/PID/stat, after the name of the program: the first of arg_start, arg_end, env_start and env_end."""


def room_for(argvs: Sequence[Sequence[str]], environments: Sequence[Mapping[str, str]]) -> tuple[list[str], dict[str, str]]:
    """Arguments and variables to start a process with that is to show any of those later."""
    arguments = max(len(_arguments(argv)) for argv in argvs)
    variables = max(len(_variables(environment)) for environment in environments)
    return [""] * arguments, {f"{PADDING}_{i}": "." * PADDING_BYTES for i in range(variables // PADDING_BYTES + 1)}


def replace(argv: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Makes this process show those, and have that environment. False: there is no room, or the kernel allows no such thing; then
    this process shows neither, and must end."""
    os.environ.clear()  # the C library lets go of the strings that lie there
    os.environ.update(environment)
    try:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as stat:
            fields = stat.read().rpartition(")")[2].split()
        arguments_at, arguments_end, variables_at, variables_end = map(int, fields[FIRST_BOUND : FIRST_BOUND + 4])
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            for content, start, end in (
                (_arguments(argv), arguments_at, arguments_end),
                (_variables(environment), variables_at, variables_end),
            ):
                if len(content) > end - start:
                    return False
                memory.seek(start)
                memory.write(content.ljust(end - start, b"\0"))
    except OSError:
        return False
    pid = os.getpid()
    return processes.command_line(pid) == list(argv) and processes.environment(pid) == dict(environment)


def _arguments(argv: Sequence[str]) -> bytes:
    return b"".join(os.fsencode(argument) + b"\0" for argument in argv)


def _variables(environment: Mapping[str, str]) -> bytes:
    return b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in environment.items())
