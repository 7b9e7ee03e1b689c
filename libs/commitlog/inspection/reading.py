"""The reading of files that a running process may write, cut or delete, on a disk that may refuse. Nothing here raises.

Nothing is mapped: to touch a mapping beyond the end of a file that was just cut kills the process.
"""

from typing import Protocol

from libs.commitlog.inspection.findings import Findings

_CHUNK = 1 << 20


class ReadOnlyFiles(Protocol):
    """The methods of FileSystem that change nothing."""

    def open_read(self, path: str) -> int: ...

    def close(self, fd: int) -> None: ...

    def size(self, fd: int) -> int: ...

    def size_of(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def pread(self, fd: int, length: int, position: int) -> bytes: ...

    def exists(self, path: str) -> bool: ...

    def list_directory(self, path: str) -> list[str]: ...


def list_names(files: ReadOnlyFiles, path: str, findings: Findings) -> list[str]:
    try:
        return sorted(files.list_directory(path))
    except OSError as error:
        findings.problem(path, None, f"cannot be listed: {error.strerror}")
        return []


def read_whole(files: ReadOnlyFiles, path: str, findings: Findings) -> bytes | None:
    """The content of a small file. None if it is missing or cannot be read; only the latter is a problem."""
    try:
        file = InspectedFile(files, path)
    except FileNotFoundError:
        return None
    except OSError as error:
        findings.problem(path, None, f"cannot be opened: {error.strerror}")
        return None
    try:
        return bytes(file.read(0, file.size))
    except OSError as error:
        findings.problem(path, None, f"cannot be read: {error.strerror}")
        return None


class InspectedFile:
    """A file of any size, read through a window. `size` is its size at opening; a writer may have appended since."""

    def __init__(self, files: ReadOnlyFiles, path: str) -> None:
        """Raises OSError."""
        self._files, self.path = files, path
        self._fd = files.open_read(path)
        self.size = files.size(self._fd)
        self._window, self._start = memoryview(b""), 0

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            self._files.close(self._fd)

    def read(self, position: int, length: int) -> memoryview:
        """Reads so many bytes, or fewer at the end of the file. Raises OSError."""
        start = position - self._start
        if not 0 <= start <= start + length <= len(self._window):
            self._window = memoryview(self._fill(position, min(max(length, _CHUNK), self.size - position)))
            self._start, start = position, 0
        return self._window[start : start + length]

    def _fill(self, position: int, length: int) -> bytes:
        parts = []
        while length > 0:
            part = self._files.pread(self._fd, length, position)
            if not part:  # the file was cut since
                break
            parts.append(part)
            position += len(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)
