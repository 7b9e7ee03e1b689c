"""Metrics of the controller, under Kafka's names where Kafka has one (kafka.controller:type=KafkaController)."""

import asyncio
from collections.abc import Iterator, Sequence

from libs.cluster.records import STORAGE
from libs.telemetry.definitions import (
    CounterDefinition,
    Family,
    FamilySource,
    GaugeDefinition,
    HistogramDefinition,
    MetricSet,
    with_pauses,
)
from libs.telemetry.durations import Durations
from services.controller.controller import Controller
from services.controller.core.reassignment.decommissioning import leaving
from services.controller.shards.shard_owners import unowned

KAFKA = "kafka_controller_kafkacontroller_"


class ControllerGauges(MetricSet):
    """The cluster and its controller at a scrape, for which it is made: nothing is counted while nobody looks."""

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller
        self._image = image = controller.image
        self._storage = image.members(STORAGE).keys()
        self._partitions = self._offline = self._imbalanced = self._moving = self._decommissioning = 0
        self._leaving = leaving(image)

    def families(self) -> Iterator[Family | None]:
        yield from with_pauses(list(self._image.topics_by_id), self._look)
        yield from super().families()

    def _look(self, topic_ids: Sequence[bytes]) -> None:
        states = [state for topic_id in topic_ids for state in self._image.partitions_of(topic_id)]
        known = [state for state in states if state is not None]
        self._partitions += len(states)
        self._offline += len(states) - len(known) + sum(state.leader < 0 for state in known)
        self._imbalanced += sum(0 <= state.leader != state.replicas[0].node_id for state in known)
        self._moving += sum(state.paced for state in known)
        if self._leaving:
            self._decommissioning += sum(replica.node_id in self._leaving for state in known for replica in state.replicas)

    @GaugeDefinition(
        name=KAFKA + "activecontrollercount",
        help="1 on the active controller, 0 on a standby.",
        healthy="1 on exactly one controller",
        otherwise="Without an active controller nothing changes. Check that etcd answers; look for `active controller` in the "
        "logs.",
    )
    def active(self) -> float:
        return float(self._controller.elected)

    @GaugeDefinition(
        name=KAFKA + "globaltopiccount",
        help="Topics of the cluster.",
        healthy="as many as you made",
    )
    def topics(self) -> int:
        return len(self._image.topics)

    @GaugeDefinition(
        name=KAFKA + "globalpartitioncount",
        help="Partitions of the cluster.",
        healthy="as many as you made",
    )
    def partitions(self) -> int:
        return self._partitions

    @GaugeDefinition(
        name=KAFKA + "offlinepartitionscount",
        help="Partitions without a leader.",
        healthy="0, but for seconds after the death of a storage node",
        otherwise="Bring the storage nodes of the ISR back. `kafka-topics.sh --describe --unavailable-partitions` names the "
        "partitions.",
    )
    def offline_partitions(self) -> int:
        return self._offline

    @GaugeDefinition(
        name=KAFKA + "preferredreplicaimbalancecount",
        help="Partitions whose leader is not their first replica.",
        healthy="0, within `leader.imbalance.check.interval.seconds` of the last restart",
        otherwise="Check that all storage nodes run and `auto.leader.rebalance.enable` is true, or run "
        "`kafka-leader-election.sh`.",
    )
    def preferred_imbalance(self) -> int:
        return self._imbalanced

    @GaugeDefinition(
        name=KAFKA + "activebrokercount",
        help="Storage nodes that are registered.",
        healthy="all storage nodes",
        otherwise="Start the missing ones. `make status` and their logs tell why they stopped.",
    )
    def active_brokers(self) -> int:
        return len(self._storage)

    @GaugeDefinition(
        name=KAFKA + "fencedbrokercount",
        help="Storage nodes that were registered once and are not now.",
        healthy="0",
        otherwise="Start them again. If one is gone for good, move its replicas, then unregister it.",
    )
    def fenced_brokers(self) -> int:
        return len(self._image.nodes.keys() - self._storage)

    @GaugeDefinition(
        name="penstock_balancing_planned_steps",
        help="Moves of replicas and leaderships that self-balancing plans to do next.",
        healthy="falls to 0",
        otherwise="With `self.balancing.mode=suggest` the plan waits for you. `/debug/balancing` shows it.",
    )
    def planned_steps(self) -> int:
        return len(self._controller.balancing.plan.steps)

    @GaugeDefinition(
        name="penstock_balancing_moving_partitions",
        help="Partitions that self-balancing moves now.",
        healthy="at most `self.balancing.moves.max`, and 0 at rest",
        otherwise="A value that stays means that a move does not end. Look at the lag of the followers that receive replicas.",
    )
    def moving_partitions(self) -> int:
        return self._moving

    @GaugeDefinition(
        name="penstock_decommissioning_replicas",
        help="Replicas on nodes with decommission=true.",
        healthy="falls to 0, then the nodes can be stopped",
        otherwise="`/debug/balancing` tells why a replica cannot move.",
    )
    def decommissioning_replicas(self) -> int:
        return self._decommissioning

    @GaugeDefinition(
        name="penstock_unowned_shards",
        help="Shards of internal topics that no live coordinator owns.",
        healthy="0, but for seconds after the death of a coordinator",
        otherwise="Start a group coordinator. Until then the groups of these shards wait.",
    )
    def unowned_shards(self) -> int:
        return unowned(self._image)

    @GaugeDefinition(
        name="penstock_metadata_revision",
        help="The etcd revision of the metadata that this process has seen.",
        healthy="alike on all controllers",
        otherwise="A controller that stays behind does not hear from etcd. Look at its log.",
    )
    def metadata_revision(self) -> int:
        return self._image.revision

    @GaugeDefinition(
        name="penstock_controller_waiting_requests",
        help="Administrative requests that wait for their turn, or run.",
        healthy="below 10",
        otherwise="Writes to etcd are slow, or clients create and alter many topics. Look at etcd's disk.",
    )
    def waiting_requests(self) -> int:
        return self._controller.waiting

    @GaugeDefinition(
        name="penstock_mutation_quota_entities",
        help="Users and clients that used some of their `controller_mutation_rate` in the last seconds, or are in debt.",
        healthy="as many as clients with that quota change topics",
    )
    def mutation_quota_entities(self) -> int:
        return self._controller.mutation_quotas.in_use(asyncio.get_running_loop().time())

    @CounterDefinition(
        name="penstock_mutation_quota_exceeded",
        help="Topics whose creation, growth or deletion was beyond a `controller_mutation_rate`. "
        "It was refused, or its client was told to wait.",
        healthy="rises only while a client changes more topics than it may",
        otherwise="`/debug/mutations` of the elected controller names the clients. Raise their quota, or look at what they do.",
    )
    def mutation_quota_exceeded(self) -> int:
        return self._controller.mutation_quotas.exceeded

    @HistogramDefinition(
        name="kafka_controller_controllerstats_leaderelectionrateandtime_seconds",
        help="Leader elections, and the time of each from the decision until the new leader was written and seen.",
        healthy="below 1 s; rises only when storage nodes stop or start",
        otherwise="Slow elections: look at etcd. Many elections: look for storage nodes that restart or hang.",
    )
    def elections(self) -> Durations:
        return self._controller.election_times

    @CounterDefinition(
        name="kafka_controller_controllerstats_uncleanleaderelections",
        help="Elections of a leader that may lack acknowledged records. "
        "No other replica was left, or `unclean.leader.election.enable` is true.",
        healthy="0",
        otherwise="Acknowledged records may be lost. The controller's log names the partitions.",
    )
    def unclean_elections(self) -> int:
        return self._controller.unclean_elections


class ControllerMeters(FamilySource):
    """The collector."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def families(self) -> Iterator[Family | None]:
        return ControllerGauges(self._controller).families()
