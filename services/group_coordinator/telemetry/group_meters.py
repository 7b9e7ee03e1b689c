"""Metrics of a group coordinator. It counts plain integers; samples are made when somebody scrapes.

Rebalances and expired offsets are counted when they are committed, requests when they are answered.

Members and clients are never labels: clients choose their names, and there is no end of them. Groups are only in lag metrics,
whose number has a bound (`introspection/lag_metrics.py`).
"""

from collections import Counter
from typing import Final

from libs.telemetry.definitions import CounterDefinition, HistogramDefinition, MetricSet
from libs.telemetry.durations import Durations
from libs.wire.apis import Api
from libs.wire.errors import error_name
from libs.wire.messages.offset_commit import OffsetCommitResponse
from libs.wire.response_errors import errors_in
from services.group_coordinator.core.model.group_kind import CLASSIC, CONSUMER

NAME: Final = "penstock_groups_"


def _api_and_error(key: tuple[str, int]) -> tuple[str, str]:
    return key[0], error_name(key[1])


class GroupMeters(MetricSet):
    """The counters of the process."""

    requests: Counter[tuple[str, int]] = CounterDefinition(
        name=NAME + "requests",
        help="Answers to gateways, by API and error: one for each shard that a client's request is about. "
        "NONE is the group's own answer, whose errors are in `penstock_groups_errors_total`. "
        "After COORDINATOR_LOAD_IN_PROGRESS and NOT_COORDINATOR the gateway asks again.",
        labels=("api", "error"),
        healthy="NONE; COORDINATOR_LOAD_IN_PROGRESS and NOT_COORDINATOR for seconds after a coordinator starts or stops",
        otherwise="COORDINATOR_NOT_AVAILABLE: the shard's partition has no leader, or too small an ISR. Look at the storage "
        "nodes. COORDINATOR_LOAD_IN_PROGRESS while all shards are loaded: this process does not hear of new topics. Look at "
        "its way to the metadata store.",
    ).kept(Counter, _api_and_error)
    """Number of requests by API and by the error that the gateway got."""
    errors: Counter[tuple[str, int]] = CounterDefinition(
        name=NAME + "errors",
        help="Errors in the answers of groups, by API and Kafka's name of the error. An answer counts once for each group, "
        "member or partition in it that has one.",
        labels=("api", "error"),
        healthy="REBALANCE_IN_PROGRESS and MEMBER_ID_REQUIRED while members come and go; 0 else, or rare",
        otherwise="UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION and FENCED_MEMBER_EPOCH: members were removed. The log tells why. "
        "[Troubleshooting](../use/troubleshooting.md) has the others.",
    ).kept(Counter, _api_and_error)
    """Number of errors in groups' own answers, by API and code."""
    committed: int = CounterDefinition(
        name=NAME + "offsets_committed",
        help="Offsets of partitions that consumers committed.",
        healthy="follows the load",
    ).kept()
    expired: int = CounterDefinition(
        name=NAME + "offsets_expired",
        help="Offsets removed after `offsets.retention.minutes`.",
        healthy="rises only after groups end",
        otherwise="A group that still matters lost its offsets: raise `offsets.retention.minutes`.",
    ).kept()
    rebalances: Counter[str] = CounterDefinition(
        name=NAME + "rebalances",
        help="Rebalances begun, by kind of group.",
        labels=("kind",),
        healthy="rises only when members come and go",
        otherwise="Look for `group rebalances` in the log: `reason` names the member. "
        "[Troubleshooting](../use/troubleshooting.md) has the remedies.",
    ).kept(lambda: Counter({CLASSIC: 0, CONSUMER: 0}))
    """Number of rebalances begun, by kind of group."""
    rebalance_times: dict[str, Durations] = HistogramDefinition(
        name=NAME + "rebalance_seconds",
        help="Time from the start of a rebalance until the group was stable or empty, by kind of group. "
        "A rebalance that begins anew counts on.",
        labels=("kind",),
        healthy="classic: `group.initial.rebalance.delay.ms` and some seconds; consumer: up to two heartbeat intervals",
        otherwise="A member does not join again in time, or does not give its partitions up. "
        "The log names members that were removed.",
    ).kept(lambda: {CLASSIC: Durations(), CONSUMER: Durations()})
    loads: Durations = HistogramDefinition(
        name=NAME + "shard_load_seconds",
        help="Loads of a shard, and the time of each until the shard served. "
        "A shard loads when this process gets it, or its partition changes its leader.",
        healthy="about 1 s for 100,000 offsets",
        otherwise="`__consumer_offsets` is large or its leaders are slow. Look at the cleaner, which keeps that topic small.",
    ).kept()
    """The times from a shard's assignment, or its leader's change, until it is served."""

    def answered(self, api: Api, error: int, response: object) -> int:
        """Counts an answer. Returns its error, or the first one in the response."""
        name = api.key.name.lower()
        self.requests[name, error] += 1
        if error:
            return error
        codes = errors_in(response)
        for code in codes:
            self.errors[name, code] += 1
        if type(response) is OffsetCommitResponse:
            for topic in response.topics:
                for part in topic.partitions:
                    self.committed += not part.error_code
        return codes[0] if codes else 0
