"""Cases of whole clients, Java's and librdkafka's: a number of records to one partition, or from it."""

from collections.abc import Callable
from functools import partial

from tests.bench.cases import KIB, Case, Measured, unique
from tests.bench.lean.cases import Prepared, clean, prepare_filled
from tests.bench.sides import Side

BATCH_BYTES = 16 * KIB
"""Of the batches that are consumed."""
MORE_RECORDS = 10_000
"""A partition has a few more records than are consumed."""
Run = Callable[[Side, str], Measured]
"""One run with a topic. It takes as long as its records do, so that both sides do the same work."""


def producer_case(name: str, words: str, run: Run, *, mark: str = "") -> Case:
    def prepare(side: Side) -> str:
        topic = unique(name)
        side.create_topic(topic, 1)
        return topic

    return Case(
        name=name,
        unit="records/s",
        higher_is_better=True,
        settings=words,
        prepare=prepare,
        run=lambda side, prepared, seconds: run(side, str(prepared)),
        clean=lambda side, prepared: side.delete_topic(str(prepared)),
        mark=mark,
        per="record",
    )


def consumer_case(name: str, words: str, record_size: int, records: int, run: Run, *, mark: str = "") -> Case:
    def run_prepared(side: Side, prepared: object, seconds: float) -> Measured:
        assert isinstance(prepared, Prepared)
        return run(side, prepared.topic)

    return Case(
        name=name,
        unit="records/s",
        higher_is_better=True,
        settings=f"{words}; one partition, data in the page cache",
        prepare=partial(_prepare_records, name=name, record_size=record_size, records=records),
        run=run_prepared,
        clean=clean,
        mark=mark,
        per="record",
    )


def _prepare_records(side: Side, *, name: str, record_size: int, records: int) -> Prepared:
    filled_bytes = (records + MORE_RECORDS) * (record_size + 20)
    return prepare_filled(side, name, 1, BATCH_BYTES, filled_bytes, value_size=record_size)
