"""Raw batches of gaps, fetched while leaders move."""

from types import TracebackType

import pytest

from libs.client.fetch import FetchedBatches
from libs.client.kafka_connection import BrokerUnreachable
from libs.client.security import Security
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.records import Record, build_batch
from services.pipeline.audit import raw_log
from services.pipeline.audit.findings import Kind, gap
from services.pipeline.audit.raw_log import explain_gaps
from services.pipeline.audit.slices import Partition, Range
from services.pipeline.errors import PipelineError

UNREACHABLE, FOLLOWER, LEADER = ("gone", 1), ("follower", 2), ("leader", 3)


class Connection:
    def __init__(self, host: str, port: int, *, client_id: str, security: Security) -> None:
        self.address = f"{host}:{port}"
        if (host, port) == UNREACHABLE:
            raise BrokerUnreachable(f"{self.address} cannot be reached")

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        pass


def fetch(connection: Connection, topic: str, partition: int, offset: int, **_: object) -> FetchedBatches:
    if connection.address == "leader:3":
        return FetchedBatches(build_batch([Record(b"k", b"v", 1000)], base_offset=5), ())
    return FetchedBatches(b"", (), ErrorCode.NOT_LEADER_OR_FOLLOWER)


@pytest.fixture(autouse=True)
def brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_log, "KafkaConnection", Connection)
    monkeypatch.setattr(raw_log, "fetch_batches", fetch)
    monkeypatch.setattr(raw_log, "RETRY_AFTER_S", 0)


def test_the_leader_is_asked_for_anew_when_it_moves_or_does_not_answer() -> None:
    leaders = iter([UNREACHABLE, None, FOLLOWER, LEADER])
    findings = explain_gaps([Range("t", 0, 2, 4)], {"t": True}, lambda _: next(leaders))
    assert findings == [gap(Kind.COMPACTED, "t", 0, 2, 4)]


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        (UNREACHABLE, "gone:1 cannot be reached"),
        (FOLLOWER, "follower:2 answers NOT_LEADER_OR_FOLLOWER"),
        (None, "it has no leader"),
    ],
)
def test_a_leader_that_does_not_come_back_is_one_sentence(address: tuple[str, int] | None, reason: str) -> None:
    asked: list[Partition] = []

    def leader(partition: Partition) -> tuple[str, int] | None:
        asked.append(partition)
        return address

    with pytest.raises(PipelineError, match=f"^t-0 cannot be fetched: {reason}$"):
        explain_gaps([Range("t", 0, 2, 4)], {"t": True}, leader)
    assert len(asked) == raw_log.RETRIES_MAX
