"""The events that a member prints: a line of JSON for each, with the names of Kafka's VerifiableConsumer."""

import argparse
import json
import signal
import threading
from collections.abc import Callable, Iterable

Partition = tuple[str, int]


def arguments() -> argparse.Namespace:
    """The same for all programs here; VerifiableConsumer understands them too, all but `--pattern`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--group-id", required=True)
    parser.add_argument("--topic")
    parser.add_argument("--pattern", help="a regular expression, instead of a topic")
    parser.add_argument("--group-protocol", default="classic")
    parser.add_argument("--assignment-strategy", default="range")
    parser.add_argument("--group-instance-id")
    parser.add_argument("--session-timeout", type=int)
    return parser.parse_args()


def until_sigterm() -> threading.Event:
    """Is set when the member shall leave."""
    leaving = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: leaving.set())
    return leaving


def say(name: str, **facts: object) -> None:
    print(json.dumps({"name": name, **facts}), flush=True)


def say_assigned(partitions: Iterable[Partition]) -> None:
    say("partitions_assigned", partitions=_named(partitions))


def say_revoked(partitions: Iterable[Partition]) -> None:
    say("partitions_revoked", partitions=_named(partitions))


def say_consumed(ranges: dict[Partition, tuple[int, int]]) -> None:
    """First and last offset of each; there are no gaps between them."""
    named_ranges = zip(_named(ranges), ranges.values(), strict=True)
    found = [{**where, "minOffset": first, "maxOffset": last} for where, (first, last) in named_ranges]
    say("records_consumed", partitions=found)


def say_committed(offsets: dict[Partition, int], error: str | None = None) -> None:
    """Next offsets. `error`: what kept them from being committed."""
    named = [{**where, "offset": offset} for where, offset in zip(_named(offsets), offsets.values(), strict=True)]
    say("offsets_committed", offsets=named, success=error is None, error=error)


class Positions:
    """What was read and is not committed yet. A refused commit is due again while its partitions are owned.

    Cooperative members go on reading while the group rebalances, and the coordinator refuses commits of the generation before.
    """

    def __init__(self) -> None:
        self._due: dict[Partition, int] = {}

    def __bool__(self) -> bool:
        return bool(self._due)

    def note_read(self, ranges: dict[Partition, tuple[int, int]]) -> None:
        self._due |= {where: last + 1 for where, (_, last) in ranges.items()}

    def commit(self, committing: Callable[[dict[Partition, int]], object], refusals: type[Exception]) -> None:
        """Calls `committing` with the next offset of each partition, and says what came of it."""
        try:
            committing(self._due)
        except refusals as error:
            say_committed(self._due, repr(error))
        else:
            say_committed(self._due)
            self._due.clear()

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Others commit these from now on."""
        for where in partitions:
            self._due.pop(where, None)


def _named(partitions: Iterable[Partition]) -> list[dict[str, object]]:
    return [{"topic": topic, "partition": partition} for topic, partition in partitions]
