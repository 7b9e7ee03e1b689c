"""Raw batches of gaps, fetched by the driver: what is in the log where its reader returned nothing."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from libs.client.fetch import READ_COMMITTED, FetchedBatches, fetch_batches
from libs.client.kafka_connection import BrokerUnreachable, KafkaConnection
from libs.client.security import NO_SECURITY, Security, SecurityProblem
from libs.wire.errors import ErrorCode
from services.pipeline.audit.findings import Finding, Kind, gap
from services.pipeline.audit.log_gaps import Gap, Run, explain
from services.pipeline.audit.slices import Partition, Range
from services.pipeline.errors import PipelineError

FETCH_BYTES_MAX = 8 << 20
NEAR_BYTES = 64 << 10
"""Of a small gap with no other behind it."""
RETRIES_MAX, RETRY_AFTER_S = 60, 0.5
ELECTIONS = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors of a broker that does not lead the partition now, or not yet."""
Leader = Callable[[Partition], tuple[str, int] | None]
"""Host and port of the broker that leads a partition now; None: none does."""


def explain_gaps(
    gaps: Iterable[Range], compacted: Mapping[str, bool], leader: Leader, security: Security = NO_SECURITY
) -> list[Finding]:
    """Findings that together cover all gaps. `compacted` says of each topic whether its cleanup policy compacts."""
    by_partition: dict[Partition, list[Gap]] = defaultdict(list)
    for each in sorted(gaps):
        by_partition[Partition(each.topic, each.partition)].append((each.first, each.last))
    findings: list[Finding] = []
    for partition, ranges in by_partition.items():
        runs = _explain_patiently(leader, partition, ranges, compacted[partition.topic], security)
        findings.extend(gap(kind, *partition, first, last) for kind, first, last in runs)
    return findings


class _NoLeader(Exception):
    """The broker that was asked does not lead the partition."""


def _explain_patiently(
    leader: Leader, partition: Partition, gaps: Sequence[Gap], is_compacted: bool, security: Security
) -> list[Run]:
    """Asks anew for the leader when it moves or does not answer. Raises PipelineError if that does not help in 30 s."""
    for retries_left in reversed(range(RETRIES_MAX)):
        try:
            return _explain_at(leader(partition), partition, gaps, is_compacted, security)
        except SecurityProblem as error:
            raise PipelineError(f"{partition.topic}-{partition.number} cannot be fetched: {error}") from error
        except (BrokerUnreachable, _NoLeader) as error:
            if not retries_left:
                raise PipelineError(f"{partition.topic}-{partition.number} cannot be fetched: {error}") from error
            time.sleep(RETRY_AFTER_S)
    raise AssertionError("the last retry returns or raises")


def _explain_at(
    address: tuple[str, int] | None, partition: Partition, gaps: Sequence[Gap], is_compacted: bool, security: Security
) -> list[Run]:
    if address is None:
        raise _NoLeader("it has no leader")
    with KafkaConnection(*address, client_id="penstock-audit", security=security) as connection:
        return _explain_partition(connection, partition, gaps, is_compacted)


def _explain_partition(connection: KafkaConnection, partition: Partition, gaps: Sequence[Gap], is_compacted: bool) -> list[Run]:
    runs: list[Run] = []
    rest = list(gaps)
    while rest:
        size = NEAR_BYTES if len(rest) == 1 and rest[0][1] - rest[0][0] < 100 else FETCH_BYTES_MAX
        fetched = _fetch(connection, partition, rest[0][0], size)
        explained, reached = explain(fetched, rest, is_compacted=is_compacted)
        if reached <= rest[0][0]:
            absent = Kind.COMPACTED if is_compacted else Kind.UNEXPLAINED_GAP
            return runs + [(absent, first, last) for first, last in rest]
        runs.extend(explained)
        rest = [(max(first, reached), last) for first, last in rest if last >= reached]
    return runs


def _fetch(connection: KafkaConnection, partition: Partition, offset: int, bytes_max: int) -> FetchedBatches:
    """Raises _NoLeader, or PipelineError for another error."""
    fetched = fetch_batches(connection, *partition, offset, wait_ms=0, bytes_max=bytes_max, isolation=READ_COMMITTED)
    if fetched.error_code:
        code = ErrorCode(fetched.error_code)
        if code in ELECTIONS:
            raise _NoLeader(f"{connection.address} answers {code.name}")
        raise PipelineError(f"{partition.topic}-{partition.number} cannot be fetched at {offset}: {code.name}")
    return fetched
