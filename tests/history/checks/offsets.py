"""One record at each offset, one offset for each record."""

from collections.abc import Iterator

from tests.history.calls import Call
from tests.history.finding import Finding
from tests.history.log import Evidence
from tests.history.model import Key, Offset, Value


def inconsistent_offsets(evidence: Evidence) -> Iterator[Finding]:
    disputed = {(key, offset) for key, log in evidence.logs.items() for offset, values in log.at.items() if len(values) > 1}
    if not disputed:
        return
    witnesses = _witnesses(evidence, disputed)
    for key, offset in sorted(disputed):
        values = tuple(sorted(evidence.logs[key].at[offset]))
        calls = tuple(call for value in values for call in witnesses.get((key, offset, value), [])[:2])
        says = f"offset {offset} holds {' and '.join(map(str, values))}"
        yield Finding("inconsistent-offsets", says, key, values, calls)


def duplicates(evidence: Evidence) -> Iterator[Finding]:
    for key in sorted(evidence.logs):
        log = evidence.logs[key]
        for value, indexes in log.indexes_of.items():
            if len(indexes) < 2:
                continue
            writer = evidence.writer.get(value)
            allowed = writer is not None and writer.process in evidence.history.plain
            offsets = [log.offsets[index] for index in indexes]
            says = f"{value} is at offsets {', '.join(map(str, offsets))}"
            yield Finding("duplicate", says, key, (value,), () if writer is None else (writer,), allowed)


def _witnesses(evidence: Evidence, disputed: set[tuple[Key, Offset]]) -> dict[tuple[Key, Offset, Value], list[Call]]:
    found: dict[tuple[Key, Offset, Value], list[Call]] = {}
    for call in evidence.calls:
        for key, offset, value in call.polls:
            if (key, offset) in disputed:
                found.setdefault((key, offset, value), []).append(call)
        for send in call.sends:
            if send.offset is not None and (send.key, send.offset) in disputed:
                found.setdefault((send.key, send.offset, send.value), []).append(call)
    return found
