"""The judge of what a client reads, by what was acknowledged."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.system.chaos.streams import HEAD, MARK, RETENTION_BYTES, Plan, Written, key_of, value_of


class Found(NamedTuple):
    offset: int
    number: int
    size: int


@dataclass
class Verdict:
    """`complaints` are broken promises. The rest is allowed, and counted."""

    complaints: list[str] = field(default_factory=list)
    missing: int = 0
    lost: int = 0
    """Acknowledged by a topic that may lose them."""
    twice: int = 0
    """Stored more than once, since a producer that is not idempotent sent them again."""
    read: int = 0

    def add(self, other: "Verdict") -> None:
        self.complaints += other.complaints
        self.missing += other.missing
        self.lost += other.lost
        self.twice += other.twice
        self.read += other.read


def decode(plan: Plan, partition: int, offset: int, value: bytes | None, key: bytes | None) -> Found | str:
    """Or what is wrong with it."""
    if value is None or len(value) < HEAD.size:
        return f"offset {offset} holds {value!r}"
    mark, of_partition, number = HEAD.unpack_from(value)
    if mark != MARK or of_partition != partition or value != value_of(partition, number, plan.sizes) or key != key_of(number):
        return f"offset {offset} holds what nobody wrote there: {value[:40]!r}"
    return Found(offset, number, len(value))


def judge(name: str, plan: Plan, written: Written, found: Sequence[Found]) -> Verdict:
    """`found`: all that is in one partition, at least to the last offset that was acknowledged."""
    verdict = Verdict(read=len(found))
    complain = verdict.complaints.append
    offsets = [one.offset for one in found]
    if offsets != sorted(set(offsets)):
        complain(f"{name}: offsets do not rise: {_first_fall(offsets)}")
    start = offsets[0] if found else 0
    numbers = [one.number for one in found]
    at = {one.offset: one.number for one in found}
    acknowledged = list(written.acknowledged)
    if plan.compacted:
        _judge_compacted(name, acknowledged, found, verdict)
        return verdict
    if found and offsets[-1] - start + 1 != len(set(offsets)):
        complain(f"{name}: {offsets[-1] - start + 1 - len(found)} offsets are left out between {start} and {offsets[-1]}")
    if start and not plan.shrinks:
        complain(f"{name}: begins at offset {start}")
    if start and sum(one.size for one in found) < 0.9 * RETENTION_BYTES:
        complain(f"{name}: retention left {sum(one.size for one in found)} bytes of {RETENTION_BYTES}")
    present = set(numbers)
    if plan.loses:
        _judge_losses(name, acknowledged, at, verdict)
    else:
        wanted = [one for one in acknowledged if one[1] is None or one[1] >= start]
        first_number = min(present, default=0)
        missing = [one for one in wanted if one[2] not in present and (one[1] is not None or one[2] >= first_number)]
        moved = [one for one in wanted if one[2] in present and one[1] is not None and at.get(one[1]) != one[2]]
        verdict.missing += len(missing)
        if missing:
            complain(f"{name}: {len(missing)} acknowledged records are gone, e.g. (life, offset, number) {missing[:3]}")
        if moved:
            complain(f"{name}: {len(moved)} records are not where they were acknowledged, e.g. {moved[:3]}")
    _judge_order(name, plan, written, numbers, verdict)
    return verdict


def _judge_losses(name: str, acknowledged: Sequence[tuple[int, int | None, int]], at: dict[int, int], verdict: Verdict) -> None:
    """Checks that in each life the surviving records are a prefix of the acknowledged ones: only the end may be lost."""
    lives: dict[int, list[tuple[int, int]]] = {}
    for life, offset, number in acknowledged:
        if offset is not None:
            lives.setdefault(life, []).append((offset, number))
    for life, ones in lives.items():
        kept = [at.get(offset) == number for offset, number in sorted(ones)]
        lost = kept.count(False)
        verdict.lost += lost
        if not all(kept[: len(kept) - lost]):
            hole = sorted(ones)[kept.index(False)]
            verdict.complaints.append(f"{name}: life {life} has a hole at (offset, number) {hole}, and records behind it")


def _judge_order(name: str, plan: Plan, written: Written, numbers: Sequence[int], verdict: Verdict) -> None:
    times = Counter(numbers)
    again = {number for number, count in times.items() if count > 1}
    verdict.twice += sum(times[number] - 1 for number in again)
    if plan.idempotent and again:
        verdict.complaints.append(f"{name}: {len(again)} records are there more than once, e.g. {sorted(again)[:5]}")
    elif not again <= written.caught:
        odd = sorted(again - written.caught)
        verdict.complaints.append(f"{name}: {len(odd)} records are there twice that no cut caught under way, e.g. {odd[:5]}")
    # A producer that is not idempotent may send what had no answer behind what it had not sent before, whatever the server does.
    free = set() if plan.idempotent else written.caught
    firsts = [number for number in dict.fromkeys(numbers) if number not in free]
    if firsts != sorted(firsts):
        verdict.complaints.append(f"{name}: records changed their order: {_first_fall(firsts)}")
    if firsts and not plan.loses:
        absent = sorted(set(range(firsts[0], firsts[-1])) - set(firsts) - free)
        if absent:
            verdict.complaints.append(f"{name}: {len(absent)} records are left out, e.g. {absent[:5]}")


def _judge_compacted(
    name: str, acknowledged: Sequence[tuple[int, int | None, int]], found: Sequence[Found], verdict: Verdict
) -> None:
    """Each key's latest acknowledged record is there, or a later one; what is there is where it was acknowledged."""
    newest = {key_of(one.number): one.number for one in found}
    wanted: dict[bytes, int] = {}
    where = {}
    for _, offset, number in acknowledged:
        wanted[key_of(number)] = max(number, wanted.get(key_of(number), -1))
        if offset is not None:
            where[number] = offset
    gone = [number for key, number in wanted.items() if newest.get(key, -1) < number]
    verdict.missing += len(gone)
    if gone:
        verdict.complaints.append(f"{name}: the latest record of {len(gone)} keys is gone, e.g. {sorted(gone)[:5]}")
    moved = [one for one in found if where.get(one.number, one.offset) != one.offset]
    if moved:
        verdict.complaints.append(f"{name}: {len(moved)} records are not where they were acknowledged, e.g. {moved[:3]}")
    numbers = [one.number for one in found]
    if numbers != sorted(set(numbers)):
        verdict.complaints.append(f"{name}: records changed their order or are there twice: {_first_fall(numbers)}")


def _first_fall(ones: Sequence[int]) -> str:
    index = next((i for i in range(1, len(ones)) if ones[i] <= ones[i - 1]), 0)
    return f"{list(ones[max(0, index - 2) : index + 3])}"
