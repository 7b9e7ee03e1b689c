"""The inodes of files and directories: what is durable, and the operations since then, in order.

A file's page is written back whenever the kernel likes, so a crash finds in each page any number of its first pending writes, the
next one perhaps in part. Sizes and names are metadata: a crash finds a prefix of their changes, whatever the data did.
"""

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from tests.simulation.sometimes import Sometimes

SECTOR = 512


class Write(NamedTuple):
    position: int
    data: bytes


class Resize(NamedTuple):
    size: int


Change = Write | Resize


class Fate:
    """Decides what a crash leaves, from one stream of randomness, and tells."""

    def __init__(self, random: Random, page_size: int, sometimes: Sometimes, story: list[str] | None = None) -> None:
        self.random, self.page_size, self.sometimes, self.story = random, page_size, sometimes, story
        # Some crashes are kind to all data or to all names: the interesting ones are those that are kind to one of the two.
        self.data_kept = random.choice((None, None, None, True, False))
        self.names_kept = random.choice((None, None, True, False))
        self.sizes_kept = random.choice((None, None, True, False))

    def prefix(self, length: int, kept: bool | None) -> int:
        if kept is not None:
            return length if kept else 0
        return self.random.choice((0, length, self.random.randint(0, length)))

    def log_event(self, line: str) -> None:
        if self.story is not None:
            self.story.append(line)


class SimFile:
    """An inode. `cache` is the page cache; mappings are views of it, so it does not move once there is one."""

    __slots__ = ("_cache", "_room", "dropped", "durable", "locked_by", "mapped", "modified_ms", "pending", "size", "viewed")

    def __init__(self, content: bytes, room: int) -> None:
        self.durable = content
        self.size = len(content)
        self._room = room
        self._cache: bytearray | None = None  # made when it is first asked for: most files of a crashed disk are not
        self.pending: list[Change] = []
        self.dropped = False  # a sync failed: the cache may hold what neither the disk nor what is pending has
        self.viewed = False
        self.mapped: bytes | None = None  # what the last look at a writable mapping saw
        self.locked_by: int | None = None
        self.modified_ms = 0

    @property
    def cache(self) -> bytearray:
        if self._cache is None:
            self._cache = bytearray(max(self._room, self.size))
            self._cache[: self.size] = self.durable
        return self._cache

    def _make_room(self, size: int) -> None:
        if size > len(self.cache):
            assert not self.viewed, f"a mapped file of {size} bytes is more than is simulated"
            self.cache.extend(bytes(size))

    def write(self, position: int, data: bytes) -> None:
        self.note_mapped()
        end = position + len(data)
        self._make_room(end)
        self.cache[position:end] = data
        self.size = max(self.size, end)
        self.pending.append(Write(position, data))
        self._refresh()

    def resize(self, size: int) -> None:
        self.note_mapped()
        self._make_room(size)
        if size < self.size:
            self.cache[size : self.size] = bytes(self.size - size)
        if size != self.size:
            self.size = size
            self.pending.append(Resize(size))
        self._refresh()

    def map_write(self) -> None:
        self.note_mapped()
        self.viewed = True
        self.mapped = bytes(self.cache[: self.size])

    def note_mapped(self) -> None:
        """Turns writes through a mapping since the last look into a pending write."""
        if self.mapped is None or self.cache.startswith(self.mapped):
            return
        now = bytes(self.cache[: self.size])
        old = self.mapped
        start, end = 0, len(now)
        while old[start : start + 64] == now[start : start + 64]:
            start += 64
        while old[start] == now[start]:
            start += 1
        while end > start + 64 and old[end - 64 : end] == now[end - 64 : end]:
            end -= 64
        while old[end - 1] == now[end - 1]:
            end -= 1
        self.pending.append(Write(start, now[start:end]))
        self.mapped = now

    def _refresh(self) -> None:
        if self.mapped is not None:
            self.mapped = bytes(self.cache[: self.size])

    def sync(self) -> None:
        """All pending changes reach the disk. What an earlier failed sync dropped does not: its pages are clean."""
        self.note_mapped()
        if self.pending and not self.dropped:
            self.durable = bytes(memoryview(self.cache)[: self.size])
            self.pending.clear()
        elif self.pending:
            pages = {page: len(self.pending) for page in self._pages(1 << 62)}
            self.durable = self._applied(pages, {}, len(self.pending), 1 << 62)
            self.pending.clear()

    def fail_sync(self, fate: Fate, *, served: bool) -> None:
        """The kernel wrote some pages, gave up on others, and counts all of them as clean."""
        self.note_mapped()
        self.durable = self.crashed(fate, "")
        self.dropped = True
        self.pending.clear()
        if not served:
            self.evict()

    def evict(self) -> None:
        """The page cache lets go of clean pages, and reads the disk when it is asked again."""
        assert not self.pending
        content = self.durable[: self.size].ljust(self.size, b"\0")
        self.cache[: self.size] = content
        self._refresh()

    def keeps(self, end: int) -> bool:
        """Whether every power cut leaves what comes before `end` as it is read now."""
        self.note_mapped()
        for change in self.pending:
            if (change.size if isinstance(change, Resize) else change.position) < end:
                return False
        return end <= len(self.durable) and self.durable[:end] == self.cache[:end]

    def crashed(self, fate: Fate, name: str) -> bytes:
        """The content after a power cut."""
        self.note_mapped()
        count = len(self.pending)
        if not count:
            return self.durable
        random, size_page = fate.random, fate.page_size
        pages: dict[int, int] = {}
        torn: dict[int, tuple[int, bool]] = {}
        for page in self._pages(size_page):
            draw = random.random()
            if fate.data_kept is not None:
                pages[page] = count if fate.data_kept else 0
            elif draw < 0.35:
                pages[page] = count
            elif draw < 0.6:
                pages[page] = 0
            else:
                pages[page] = random.randrange(count)
                torn[page] = (random.randrange(1, size_page), random.random() < 0.7)
                fate.sometimes("page torn")
        sizes = fate.prefix(count, fate.sizes_kept)
        found = self._applied(pages, torn, sizes, size_page)
        kept = [pages[page] == count for page in sorted(pages)]
        fate.sometimes("page dropped between pages that were kept", any(a and not b and c for a, b, c in _threes(kept)))
        whole = bytes(self.cache[: len(found)])
        fate.sometimes("data lost although the file was longer", len(found) > len(self.durable) and found != whole)
        fate.sometimes("file grew with zeros", len(found) > len(self.durable) and not any(found[len(self.durable) :]))
        if fate.story is not None and name:
            fates = ", ".join(_page_fate(page, pages[page], torn.get(page), count) for page in sorted(pages))
            fate.log_event(f"    {name}: {len(self.durable)} bytes durable, {self.size} written, {len(found)} left; {fates}")
        return found

    def copied(self) -> "SimFile":
        """A copy as another process finds it: the same page cache over the same disk."""
        self.note_mapped()
        other = SimFile(self.durable, self._room)
        other.size, other.pending, other.modified_ms = self.size, list(self.pending), self.modified_ms
        other.dropped = self.dropped
        if self._cache is not None:
            other._cache = bytearray(len(self._cache))
            other._cache[: self.size] = self._cache[: self.size]
        return other

    def _pages(self, page_size: int) -> Iterator[int]:
        seen: set[int] = set()
        for change in self.pending:
            if isinstance(change, Write) and change.data:
                for page in range(change.position // page_size, (change.position + len(change.data) - 1) // page_size + 1):
                    if page not in seen:
                        seen.add(page)
                        yield page

    def _applied(self, pages: dict[int, int], torn: dict[int, tuple[int, bool]], sizes: int, page_size: int) -> bytes:
        """`pages`: how many changes each page has seen; `torn`: where the next one stops or begins; `sizes`: as for metadata."""
        content = bytearray(self.durable)
        size = len(content)
        for number, change in enumerate(self.pending):
            if isinstance(change, Resize):
                if number < sizes:
                    size = change.size
                    cut = min(change.size, len(content))
                    content[cut:] = bytes(len(content) - cut)
                else:
                    for page, seen in pages.items():
                        start = max(change.size, page * page_size)
                        stop = min((page + 1) * page_size, len(content))
                        if number < seen and start < stop:
                            content[start:stop] = bytes(stop - start)
                continue
            end = change.position + len(change.data)
            if number < sizes:
                size = max(size, end)
            if len(content) < end:
                content.extend(bytes(end - len(content)))
            for page, seen in pages.items():
                start, stop = max(change.position, page * page_size), min(end, (page + 1) * page_size)
                if number == seen and page in torn:
                    at, head = torn[page]
                    cut = page * page_size + at
                    start, stop = (start, min(stop, cut)) if head else (max(start, cut), stop)
                elif number >= seen:
                    continue
                if start < stop:
                    content[start:stop] = change.data[start - change.position : stop - change.position]
        return bytes(content[:size]).ljust(size, b"\0")


class Link(NamedTuple):
    name: str
    inode: "Inode"


class Unlink(NamedTuple):
    name: str


class Rename(NamedTuple):
    source: str
    target: str


class SimDirectory:
    """Names. `entries` is what processes see, `durable` what the disk has."""

    __slots__ = ("durable", "entries", "pending")

    def __init__(self) -> None:
        self.entries: dict[str, Inode] = {}
        self.durable: dict[str, Inode] = {}
        self.pending: list[Link | Unlink | Rename] = []

    def change(self, change: Link | Unlink | Rename) -> None:
        _change(self.entries, change)
        self.pending.append(change)

    def sync(self) -> None:
        if self.pending:
            self.durable = dict(self.entries)
            self.pending.clear()

    def crashed(self, fate: Fate, name: str) -> dict[str, "Inode"]:
        """The names after a power cut: a prefix of what happened since the last sync."""
        count = len(self.pending)
        if not count:
            return self.durable
        kept = fate.prefix(count, fate.names_kept)
        found = dict(self.durable)
        for change in self.pending[:kept]:
            _change(found, change)
            if isinstance(change, Rename):
                inode = found[change.target]
                fate.sometimes("rename before data", isinstance(inode, SimFile) and bool(inode.pending))
        for lost in self.pending[kept:]:
            fate.sometimes("directory entry lost", isinstance(lost, Link))
            fate.sometimes("rename lost", isinstance(lost, Rename))
            fate.sometimes("resume point lost", isinstance(lost, Rename) and lost.target.endswith(".resume"))
            fate.sometimes("unlink lost", isinstance(lost, Unlink))
        if fate.story is not None:
            said = ", ".join(_said(change) for change in self.pending[kept:])
            fate.log_event(f"    {name}/: {kept} of {count} changes of names left" + (f"; lost: {said}" if said else ""))
        return found


Inode = SimFile | SimDirectory


def copied(directory: SimDirectory, memo: dict[int, "Inode"]) -> SimDirectory:
    """A copy with all pending operations. An inode that has, or had, several names is copied once."""

    def copy_of(inode: Inode) -> Inode:
        if id(inode) not in memo:
            memo[id(inode)] = copied(inode, memo) if isinstance(inode, SimDirectory) else inode.copied()
        return memo[id(inode)]

    other = SimDirectory()
    other.entries = {name: copy_of(inode) for name, inode in directory.entries.items()}
    other.durable = {name: copy_of(inode) for name, inode in directory.durable.items()}
    other.pending = [
        Link(change.name, copy_of(change.inode)) if isinstance(change, Link) else change for change in directory.pending
    ]
    return other


def _change(entries: dict[str, Inode], change: Link | Unlink | Rename) -> None:
    if isinstance(change, Link):
        entries[change.name] = change.inode
    elif isinstance(change, Unlink):
        del entries[change.name]
    else:
        entries[change.target] = entries.pop(change.source)


def _said(change: Link | Unlink | Rename) -> str:
    if isinstance(change, Link):
        return f"create {change.name}"
    if isinstance(change, Unlink):
        return f"unlink {change.name}"
    return f"rename {change.source} to {change.target}"


def _threes(values: list[bool]) -> Iterator[tuple[bool, bool, bool]]:
    return zip(values, values[1:], values[2:], strict=False)


def _page_fate(page: int, seen: int, torn: tuple[int, bool] | None, count: int) -> str:
    if torn is not None:
        return f"page {page} torn after {seen} of {count} changes, the next one {'up to' if torn[1] else 'from'} byte {torn[0]}"
    return f"page {page} " + ("kept" if seen == count else "dropped" if not seen else f"as after {seen} of {count} changes")
