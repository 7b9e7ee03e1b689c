"""An answer whose file ranges are not in the page cache. It waits beside its connection, so that other answers go by."""

from collections.abc import Callable, Sequence

from libs.rpc.transport.transport import FileSlice, Stream


class ColdAnswer:
    """The descriptors of one answer, until the beginning of each range is in the page cache. What follows is read as it is sent:
    a disk that hangs has then shown it.

    `begin` once. Later it is either `dropped`, or `ended` is called, with the error if a range cannot be read.
    """

    __slots__ = ("_drop_read", "_ended", "_next", "_stream", "files", "is_dropped")

    def __init__(
        self, stream: Stream, files: Sequence[FileSlice], ended: Callable[["ColdAnswer", Exception | None], None]
    ) -> None:
        """`files` are duplicated. Raises OSError."""
        own = stream.hold_files([fd for fd, _, _ in files])
        self.files = [(fd, position, length) for fd, (_, position, length) in zip(own, files, strict=True)]
        self.is_dropped = False
        self._stream = stream
        self._ended = ended
        self._next = 0
        self._drop_read: Callable[[], bool] | None = None

    def begin(self) -> bool:
        """Whether all is in the page cache now; `ended` is not called then. Raises OSError. After any error it holds no files."""
        while self._next < len(self.files):
            fd, position, length = self.files[self._next]
            self._next += 1
            try:
                self._drop_read = self._stream.read_ahead(fd, position, length, self._go_on) if length else None
            except BaseException:
                self.let_go()
                raise
            if self._drop_read is not None:
                return False
        return True

    def drop(self) -> None:
        """Lets go of the files, as soon as no thread reads them."""
        self.is_dropped = True
        if self._drop_read is None or self._drop_read():
            self.let_go()

    def let_go(self) -> None:
        for fd, _, _ in self.files:
            self._stream.let_go(fd)
        self.files = []
        self._drop_read = None

    def _go_on(self, error: Exception | None) -> None:
        self._drop_read = None
        if self.is_dropped:
            self.let_go()
            return
        try:
            if error is None and not self.begin():
                return
        except OSError as another:
            error = another
        self._ended(self, error)
