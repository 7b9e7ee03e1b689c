"""JVMs that run Kafka's tools one after the other: a start of its own takes most of what a tool takes."""

import atexit
import struct
import subprocess
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import IO

PROGRAM = Path(__file__).parent / "ToolServer.java"
EXITED = -1
"""The tool has ended its JVM, whose exit code is the tool's."""


class ToolServer:
    """One JVM. `command`: that of the program, with the options of all tools that it runs."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def run(self, words: Sequence[str], stdin: bytes, timeout_s: float) -> tuple[int, bytes, bytes]:
        """Exit code, standard output and standard error. Raises as `subprocess.run` does; the server has ended then."""
        out_of_time = threading.Event()

        def end() -> None:
            out_of_time.set()
            self._process.kill()

        watchdog = threading.Timer(timeout_s, end)
        watchdog.start()
        try:
            self._ask(words, stdin)
            (code,) = struct.unpack(">i", self._read(4))
            said, complained = self._stream(), self._stream()
            return self._process.wait() if code == EXITED else code, said, complained
        except (EOFError, BrokenPipeError):
            if out_of_time.is_set():
                raise subprocess.TimeoutExpired(list(words), timeout_s) from None
            raise AssertionError(f"the tools' JVM ended with {self._process.wait()} amid {' '.join(words)}") from None
        finally:
            watchdog.cancel()

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _ask(self, words: Sequence[str], stdin: bytes) -> None:
        octets = [*(word.encode() for word in words), stdin]
        request = struct.pack(">i", len(words)) + b"".join(struct.pack(">i", len(each)) + each for each in octets)
        to = self._pipe(self._process.stdin)
        to.write(request)
        to.flush()

    def _stream(self) -> bytes:
        (length,) = struct.unpack(">i", self._read(4))
        return self._read(length)

    def _read(self, length: int) -> bytes:
        data = self._pipe(self._process.stdout).read(length)
        if len(data) < length:
            raise EOFError
        return data

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        assert pipe is not None
        return pipe


class ToolServers:
    """As many as run at once. They end with this process."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._idle: list[ToolServer] = []
        self._mutex = threading.Lock()

    def run(self, words: Sequence[str], stdin: bytes, timeout_s: float) -> tuple[int, bytes, bytes]:
        with self._mutex:
            server = self._idle.pop() if self._idle else None
        server = server or ToolServer(self._command)
        try:
            result = server.run(words, stdin, timeout_s)
        except BaseException:
            server.close()
            raise
        if server.has_ended:
            server.close()
        else:
            with self._mutex:
                self._idle.append(server)
        return result

    def close(self) -> None:
        for server in self._idle:
            server.close()


@cache
def tool_servers(command: tuple[str, ...]) -> ToolServers:
    """Those of this process, by the command."""
    servers = ToolServers(command)
    atexit.register(servers.close)
    return servers
