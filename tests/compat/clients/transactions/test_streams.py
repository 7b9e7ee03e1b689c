"""An application of Kafka Streams with `exactly_once_v2`: what it reads, its state and what it writes are one transaction."""

import random
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Producer

from tests.compat.clients.admin import Admin
from tests.compat.clients.transactions.topic_reader import Record, TopicReader
from tests.compat.clients.transactions.word_count import word_count
from tests.support.polling import rounds

PARTITIONS = 2
WORDS = [f"word-{number}" for number in range(20)]
WORDS_IN_LINE = 5
LINES_IN_ROUND = 4
ROUND_S = 0.05
FLUSH_S = 60.0


class Counts:
    """The counts that the application writes, and the lines that it counts. `words`: how often each word was written."""

    def __init__(self, bootstrap: str, lines: str, committed: TopicReader, uncommitted: TopicReader) -> None:
        self.words: Counter[str] = Counter()
        self._lines = lines
        self._committed, self._uncommitted = committed, uncommitted
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
        self._random = random.Random(7)

    def write_until(self, condition: Callable[[], bool], purpose: str) -> None:
        for _ in rounds(purpose):
            if condition():
                return
            for number in range(LINES_IN_ROUND):
                words = self._random.choices(WORDS, k=WORDS_IN_LINE)
                self._producer.produce(self._lines, " ".join(words), partition=number % PARTITIONS)
                self.words.update(words)
            self._producer.poll(0)
            self._uncommitted.poll()
            self._committed.poll(ROUND_S)

    def until_all_are_counted(self) -> None:
        assert self._producer.flush(FLUSH_S) == 0
        for _ in rounds("every word is counted"):
            if self._committed.count >= self.words.total():
                return
            self._committed.poll(ROUND_S)

    def mark(self) -> list[int]:
        """Where the committed counts end now, by partition."""
        return [len(records) for records in self._committed.records]

    def counters(self, since: list[int]) -> list[set[str]]:
        """The instances that have committed counts since a mark, by partition."""
        return [_instances(records[start:]) for records, start in zip(self._committed.records, since, strict=True)]

    def amid_transactions(self) -> set[str]:
        """The instances that have counts that are not committed yet. Not for use once counts were aborted."""
        pairs = zip(self._uncommitted.records, self.mark(), strict=True)
        return set().union(*(_instances(records[committed:]) for records, committed in pairs))


def _instances(records: list[Record]) -> set[str]:
    return {value.split()[1] for _, value in records}


def counts_by_word(records: list[list[Record]]) -> dict[str | None, list[int]]:
    """The counts of each word, in their order."""
    counts: dict[str | None, list[int]] = {}
    for word, value in (record for of_partition in records for record in of_partition):
        counts.setdefault(word, []).append(int(value.split()[0]))
    return counts


def test_words_are_counted_once_while_an_instance_is_killed_and_comes_back(
    bootstrap: str, admin: Admin, topic: str, tmp_path: Path
) -> None:
    lines, output = f"{topic}-lines", f"{topic}-counts"
    admin.create(lines, PARTITIONS)
    admin.create(output, PARTITIONS)
    with ExitStack() as stack:
        committed = stack.enter_context(TopicReader(bootstrap, output, PARTITIONS))
        uncommitted = stack.enter_context(TopicReader(bootstrap, output, PARTITIONS, "read_uncommitted"))
        first, second = (
            stack.enter_context(word_count(bootstrap, lines, output, name, tmp_path / name)) for name in ("first", "second")
        )
        counts = Counts(bootstrap, lines, committed, uncommitted)
        start = counts.mark()
        counts.write_until(lambda: set().union(*counts.counters(start)) == {"first", "second"}, "both instances count")
        counts.write_until(lambda: "first" not in counts.amid_transactions(), "a transaction of the first one ends")
        counts.write_until(lambda: "first" in counts.amid_transactions(), "its next transaction begins")
        first.kill()
        death = counts.mark()
        counts.write_until(lambda: all("second" in names for names in counts.counters(death)), "the second one counts all words")
        first.start()
        counts.write_until(lambda: "first" in set().union(*counts.counters(death)), "the first one counts again")
        counts.until_all_are_counted()
        for instance in (first, second):
            instance.expect_running()
    expected = {word: list(range(1, count + 1)) for word, count in counts.words.items()}
    assert counts_by_word(committed.records) == expected
    with TopicReader(bootstrap, output, PARTITIONS) as later:
        assert counts_by_word(later.read_to_end()) == expected
