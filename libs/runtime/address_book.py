"""The last known addresses of the cluster's other processes, in a file of each process. With it a process can start while the
metadata store is away.

The file is renamed into place and never synced, so that nothing waits for it. After a power cut it may be gone or empty; then
only the seeds of the configuration are asked.
"""

import logging

from libs.cluster.codec import RecordError, decode, encode
from libs.cluster.image import ClusterImage
from libs.commitlog.files.durable_files import begin_file, path_beside, read_file
from libs.commitlog.files.filesystem import FileSystem
from libs.lean_dataclass import dataclass
from libs.telemetry.logs import fields

log = logging.getLogger("metadata")


@dataclass(frozen=True, slots=True)
class Address:
    """The addresses of one member, as its record had them."""

    role: str
    node_id: int
    host_id: str
    unix_address: str = ""
    tcp_address: str = ""


@dataclass(frozen=True, slots=True)
class Book:
    cluster_id: str = ""
    addresses: tuple[Address, ...] = ()


def book_of(image: ClusterImage, own_role: str, own_id: int) -> Book:
    """The addresses of all members but our own. Restarts that change no address do not change it."""
    peers = [
        Address(role, node_id, member.host_id, member.unix_address, member.tcp_address)
        for role, members in sorted(image.members_by_role.items())
        for node_id, member in sorted(members.items())
        if (role, node_id) != (own_role, own_id) and (member.unix_address or member.tcp_address)
    ]
    return Book(image.cluster_id, tuple(peers))


class AddressBook:
    """The file `<data_dir>/peers`."""

    def __init__(self, fs: FileSystem, data_dir: str) -> None:
        self._fs = fs
        self._path = f"{data_dir}/peers"
        self._book: Book | None = None

    @property
    def book(self) -> Book:
        if self._book is None:
            self._book = self._read()
        return self._book

    def write(self, book: Book) -> None:
        """Replaces the file. An empty book is passed over: when all leases run out together, the members need not be dead."""
        if book == self.book or not book.addresses:
            return
        self._book = book
        try:
            begin_file(self._fs, self._path, encode(book) + b"\n")
            self._fs.rename(path_beside(self._path), self._path)
        except OSError as error:
            log.warning("addresses of peers could not be written", extra=fields(path=self._path, reason=error))

    def _read(self) -> Book:
        try:
            content = read_file(self._fs, self._path)
            return decode(Book, content) if content else Book()
        except (OSError, RecordError) as error:
            log.warning("addresses of peers cannot be read", extra=fields(path=self._path, reason=error))
            return Book()
