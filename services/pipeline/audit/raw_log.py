"""Raw batches of gaps, fetched by the driver: what is in the log where its reader returned nothing."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from libs.client.fetch import READ_COMMITTED, FetchedBatches, fetch_batches
from libs.client.kafka_connection import KafkaConnection
from libs.wire.errors import ErrorCode
from services.pipeline.audit.findings import Finding, Kind, gap
from services.pipeline.audit.log_gaps import Gap, Run, explain
from services.pipeline.audit.slices import Partition, Range
from services.pipeline.errors import PipelineError

FETCH_BYTES_MAX = 8 << 20
NEAR_BYTES = 64 << 10
"""Of a small gap with no other behind it."""
Leader = Callable[[Partition], tuple[str, int]]
"""Host and port of the broker that leads a partition."""


def explain_gaps(gaps: Iterable[Range], compacted: Mapping[str, bool], leader: Leader) -> list[Finding]:
    """Findings that together cover all gaps. `compacted` says of each topic whether its cleanup policy compacts."""
    by_partition: dict[Partition, list[Gap]] = defaultdict(list)
    for each in sorted(gaps):
        by_partition[Partition(each.topic, each.partition)].append((each.first, each.last))
    findings: list[Finding] = []
    for partition, ranges in by_partition.items():
        host, port = leader(partition)
        with KafkaConnection(host, port, client_id="penstock-audit") as connection:
            runs = _explain_partition(connection, partition, ranges, compacted[partition.topic])
        findings.extend(gap(kind, *partition, first, last) for kind, first, last in runs)
    return findings


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
    """Raises PipelineError."""
    fetched = fetch_batches(connection, *partition, offset, wait_ms=0, bytes_max=bytes_max, isolation=READ_COMMITTED)
    if fetched.error_code:
        code = ErrorCode(fetched.error_code)
        raise PipelineError(f"{partition.topic}-{partition.number} cannot be fetched at {offset}: {code.name}")
    return fetched
