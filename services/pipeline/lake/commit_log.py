"""The commit log of a Parquet table: `_penstock/log/NUMBER.json`, one file a commit. An entry is there as a whole or not at all.

The entries in their order tell the table: its schema, its files, the last batch of its stream, the writer that may append. The
number of an entry can be taken once, so a second writer of the same table finds out that it is not alone.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from services.pipeline.errors import PipelineError
from services.pipeline.spark.files import Files

LOG = "_penstock/log"
_NAME = re.compile(r"\d{20}\.json", re.ASCII)
SNAPSHOT_EVERY = 32
"""Each entry whose number this divides also holds the whole state before it, so that readers need not go further back."""


@dataclass(frozen=True)
class DataFile:
    path: str
    size_bytes: int


@dataclass(frozen=True)
class Entry:
    """One commit. `kind` is claim, batch, compaction, retention or cleanup."""

    kind: str
    add: tuple[DataFile, ...] = ()
    remove: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    """Files that earlier entries have removed from the table, and that are no longer on disk; cleanups only."""
    time_s: float = 0.0
    """When it was committed, in seconds since 1970."""
    stream: str | None = None
    """The id of the streaming query that owns the table; claims only."""
    schema: str | None = None
    """The table's schema as Spark's JSON, if it is new or has changed."""
    batch: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What others may want to know: offsets and rows of a batch, lost offsets, expired dates."""


@dataclass(frozen=True)
class State:
    """A table after `number` entries, counted from 0; -1: there is none."""

    number: int = -1
    stream: str | None = None
    schema: str | None = None
    batch: int = -1
    files: Mapping[str, int] = field(default_factory=dict)
    """Sizes in bytes by path."""
    removed: Mapping[str, float] = field(default_factory=dict)
    """When an entry removed each file that may still be on disk, for readers that began before; in seconds since 1970."""

    def after(self, entry: Entry) -> "State":
        gone, deleted = dict.fromkeys(entry.remove, entry.time_s), set(entry.deleted)
        kept = {path: size for path, size in self.files.items() if path not in gone}
        return State(
            self.number + 1,
            entry.stream or self.stream,
            entry.schema or self.schema,
            self.batch if entry.batch is None else entry.batch,
            {**kept, **{added.path: added.size_bytes for added in entry.add}},
            {path: time_s for path, time_s in {**self.removed, **gone}.items() if path not in deleted},
        )


def file_of(number: int) -> str:
    return f"{LOG}/{number:020}.json"


def encode(entry: Entry, before: State) -> str:
    number = before.number + 1
    snapshot = asdict(before) if number % SNAPSHOT_EVERY == 0 else None
    return json.dumps({**asdict(entry), "number": number, "snapshot": snapshot})


def decode(text: str) -> tuple[int, Entry, State | None]:
    """Its number, the entry, and the state before it if it holds one."""
    values = json.loads(text)
    snapshot, number = values.pop("snapshot"), int(values.pop("number"))
    add = tuple(DataFile(**each) for each in values.pop("add"))
    remove, deleted = tuple(values.pop("remove")), tuple(values.pop("deleted", ()))
    return number, Entry(add=add, remove=remove, deleted=deleted, **values), State(**snapshot) if snapshot else None


class LogFiles(Protocol):
    """The files of a table, as far as a reader of its log needs them. Paths are relative to `folder`."""

    @property
    def folder(self) -> str: ...

    def full(self, path: str) -> str: ...

    def names(self, path: str) -> list[str]:
        """Names of what lies in a folder, sorted; none if it does not exist. Hidden files are left out."""
        ...

    def read(self, path: str) -> str: ...


def read_entries(files: Files, after: int = -1) -> Iterable[tuple[int, Entry]]:
    """Entries behind that number, in order."""
    for number in _numbers(files):
        if number > after:
            yield number, _read(files, number)[0]


def read_state(files: LogFiles) -> State:
    """The table as it is now. Raises PipelineError if the log lacks an entry, or has one that is damaged."""
    behind: dict[int, Entry] = {}
    state = State()
    for number in reversed(_numbers(files)):
        behind[number], snapshot = _read(files, number)
        if snapshot is not None:
            state = snapshot
            break
    for number, entry in sorted(behind.items()):
        if number != state.number + 1:
            raise PipelineError(
                f"the commit log of {files.folder} lacks {file_of(state.number + 1)}, and has later entries: put it back"
            )
        state = state.after(entry)
    return state


def append(files: Files, state: State, entry: Entry) -> State | None:
    """Commits the entry. None: another writer has taken its number, and nothing was committed."""
    if not files.create(file_of(state.number + 1), encode(entry, state)):
        return None
    return state.after(entry)


def claim(files: Files, stream: str) -> State:
    """Makes this process the only one that can append: writers before it find the number of their next entry taken.

    Raises PipelineError if the table belongs to another stream.
    """
    while True:
        state = read_state(files)
        if state.stream not in (None, stream):
            raise PipelineError(
                f"{files.folder} belongs to the stream {state.stream}, and this checkpoint to {stream}: "
                "give the job its own checkpoint again, or another path"
            )
        claimed = append(files, state, Entry("claim", stream=stream))
        if claimed is not None:
            return claimed


def damage(state: State, present: Mapping[str, int]) -> str | None:
    """What is wrong with the table's files, as a clause; None: nothing. `present`: sizes in bytes by path."""
    missing = sorted(state.files.keys() - present.keys())
    if missing:
        more = f", as are {len(missing) - 1} other files" if len(missing) > 1 else ""
        return f"is half a table: its log names {missing[0]}, which is gone{more}"
    other = [path for path, size in state.files.items() if present[path] != size]
    if not other:
        return None
    more = f"; {len(other) - 1} other files have changed, too" if len(other) > 1 else ""
    path = other[0]
    return f"is damaged: {path} has {present[path]} bytes, and {state.files[path]} when it was committed{more}"


def _numbers(files: LogFiles) -> list[int]:
    names = [name for name in files.names(LOG) if name.endswith(".json")]
    for name in names:
        if not _NAME.fullmatch(name):
            raise PipelineError(f"{files.full(f'{LOG}/{name}')} is no entry of a commit log: move it away")
    return [int(name.removesuffix(".json")) for name in names]


def _read(files: LogFiles, number: int) -> tuple[Entry, State | None]:
    try:
        stored, entry, snapshot = decode(files.read(file_of(number)))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise PipelineError(f"{files.full(file_of(number))} is damaged: it is no entry of a commit log") from None
    if stored != number:
        raise PipelineError(f"{files.full(file_of(number))} is damaged: it is the entry of number {stored}")
    return entry, snapshot
