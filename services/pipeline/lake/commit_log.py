"""The commit log of a Parquet table: `_penstock/log/NUMBER.json`, one file a commit. An entry is there as a whole or not at all.

The entries in their order tell the table: its schema, its files, the last batch of its stream, the writer that may append. The
number of an entry can be taken once, so a second writer of the same table finds out that it is not alone.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from services.pipeline.spark.files import Files

LOG = "_penstock/log"
SNAPSHOT_EVERY = 32
"""Each entry whose number this divides also holds the whole state before it, so that readers need not go further back."""


@dataclass(frozen=True)
class DataFile:
    path: str
    size_bytes: int


@dataclass(frozen=True)
class Entry:
    """One commit. `kind` is claim, batch, compaction or retention."""

    kind: str
    add: tuple[DataFile, ...] = ()
    remove: tuple[str, ...] = ()
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

    def after(self, entry: Entry) -> "State":
        kept = {path: size for path, size in self.files.items() if path not in entry.remove}
        return State(
            self.number + 1,
            entry.stream or self.stream,
            entry.schema or self.schema,
            self.batch if entry.batch is None else entry.batch,
            {**kept, **{added.path: added.size_bytes for added in entry.add}},
        )


def file_of(number: int) -> str:
    return f"{LOG}/{number:020}.json"


def encode(entry: Entry, before: State) -> str:
    number = before.number + 1
    snapshot = asdict(before) if number % SNAPSHOT_EVERY == 0 else None
    return json.dumps({**asdict(entry), "number": number, "snapshot": snapshot})


def decode(text: str) -> tuple[Entry, State | None]:
    values = json.loads(text)
    snapshot = values.pop("snapshot")
    values.pop("number")
    add = tuple(DataFile(**each) for each in values.pop("add"))
    entry = Entry(add=add, remove=tuple(values.pop("remove")), **values)
    return entry, State(**snapshot) if snapshot else None


def read_entries(files: Files, after: int = -1) -> Iterable[tuple[int, Entry]]:
    """Entries behind that number, in order."""
    for number in _numbers(files):
        if number > after:
            yield number, decode(files.read(file_of(number)))[0]


def read_state(files: Files) -> State:
    """The table as it is now."""
    numbers = _numbers(files)
    behind: list[Entry] = []
    state = State()
    for number in reversed(numbers):
        entry, snapshot = decode(files.read(file_of(number)))
        behind.append(entry)
        if snapshot is not None:
            state = snapshot
            break
    for entry in reversed(behind):
        state = state.after(entry)
    return state


def append(files: Files, state: State, entry: Entry) -> State | None:
    """Commits the entry. None: another writer has taken its number, and nothing was committed."""
    if not files.create(file_of(state.number + 1), encode(entry, state)):
        return None
    return state.after(entry)


def claim(files: Files, stream: str) -> State:
    """Makes this process the only one that can append: writers before it find the number of their next entry taken."""
    while True:
        state = read_state(files)
        claimed = append(files, state, Entry("claim", stream=state.stream or stream))
        if claimed is not None:
            return claimed


def _numbers(files: Files) -> list[int]:
    return [int(name.removesuffix(".json")) for name in files.names(LOG) if name.endswith(".json")]
