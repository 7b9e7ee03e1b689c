"""Producers that have been silent are forgotten, unless they have a transaction open."""

from pathlib import Path

import pytest

from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batches import BatchError, BatchHeader
from libs.wire.record_batches.markers import Marker, build_marker
from tests.commitlog.harness import open_log
from tests.commitlog.transactional import end, produce

DAY = 86_400_000
WRITTEN = 1000  # what the batches and markers say


def test_a_producer_with_an_open_transaction_is_never_forgotten(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    produce(log, 1)
    produce(log, 2)
    produce(log, 3, transactional=False)
    end(log, 2, commit=True)
    assert log.producers.expire(WRITTEN, DAY) == 0
    assert log.producers.expire(WRITTEN + DAY - 1, DAY) == 0
    assert log.producers.expire(WRITTEN + 1000 * DAY, DAY) == 2
    assert set(log.producers.entries) == {1}
    end(log, 1, commit=False)
    assert log.producers.expire(WRITTEN + 1000 * DAY, DAY) == 0
    assert log.producers.expire(WRITTEN + 1001 * DAY, DAY) == 1


def test_a_clock_that_went_back_forgets_nobody(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    produce(log, 1, transactional=False)
    assert log.producers.expire(WRITTEN - DAY, DAY) == 0
    assert log.producers.expire(WRITTEN - 2 * DAY, DAY) == 0


def test_kafka_9144_a_marker_counts_as_a_sign_of_life(tmp_path: Path) -> None:
    """Only batches counted. A transaction that its coordinator aborted late was forgotten at once, and with it the coordinator's
    epoch. Then a former coordinator could write a marker, too."""
    log = open_log(tmp_path)
    produce(log, 1)
    assert log.producers.expire(WRITTEN, DAY) == 0
    end(log, 1, commit=False, coordinator_epoch=5)
    assert log.producers.expire(WRITTEN + DAY, DAY) == 0
    log.close(clean=True)
    log = open_log(tmp_path)
    assert log.producers.expire(WRITTEN + DAY, DAY) == 0
    former = Marker(aborts=False, coordinator_epoch=4)
    header = BatchHeader.at(build_marker(former, producer_id=1, producer_epoch=0, timestamp_ms=WRITTEN))
    with pytest.raises(BatchError) as refused:
        log.producers.check_marker(header, former)
    assert refused.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
