"""Metrics of the controller, under Kafka's names where Kafka has one (kafka.controller:type=KafkaController)."""

from collections.abc import Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE
from libs.telemetry.definitions import CounterDefinition, GaugeDefinition, HistogramDefinition
from libs.telemetry.metrics import Metrics
from services.controller.controller import Controller
from services.controller.core.balancing.replica_moves import moving, replicas_on
from services.controller.core.reassignment.decommissioning import leaving
from services.controller.shards.shard_owners import unowned

KAFKA = "kafka_controller_kafkacontroller_"

ACTIVE = GaugeDefinition(
    name=KAFKA + "activecontrollercount",
    help="1 on the active controller, 0 on a standby.",
    healthy="1 on exactly one controller",
    otherwise="Without an active controller nothing changes. Check that etcd answers; look for `active controller` in the logs.",
)
TOPICS = GaugeDefinition(
    name=KAFKA + "globaltopiccount",
    help="Topics of the cluster.",
    healthy="as many as you made",
)
PARTITIONS = GaugeDefinition(
    name=KAFKA + "globalpartitioncount",
    help="Partitions of the cluster.",
    healthy="as many as you made",
)
OFFLINE_PARTITIONS = GaugeDefinition(
    name=KAFKA + "offlinepartitionscount",
    help="Partitions without a leader.",
    healthy="0, but for seconds after the death of a storage node",
    otherwise="Bring the storage nodes of the ISR back. `kafka-topics.sh --describe --unavailable-partitions` names the "
    "partitions.",
)
PREFERRED_IMBALANCE = GaugeDefinition(
    name=KAFKA + "preferredreplicaimbalancecount",
    help="Partitions whose leader is not their first replica.",
    healthy="0, within `leader.imbalance.check.interval.seconds` of the last restart",
    otherwise="Check that all storage nodes run and `auto.leader.rebalance.enable` is true, or run `kafka-leader-election.sh`.",
)
ACTIVE_BROKERS = GaugeDefinition(
    name=KAFKA + "activebrokercount",
    help="Storage nodes that are registered.",
    healthy="all storage nodes",
    otherwise="Start the missing ones. `make status` and their logs tell why they stopped.",
)
FENCED_BROKERS = GaugeDefinition(
    name=KAFKA + "fencedbrokercount",
    help="Storage nodes that were registered once and are not now.",
    healthy="0",
    otherwise="Start them again. If one is gone for good, move its replicas, then unregister it.",
)
PLANNED_STEPS = GaugeDefinition(
    name="penstock_balancing_planned_steps",
    help="Moves of replicas and leaderships that self-balancing plans to do next.",
    healthy="falls to 0",
    otherwise="With `self.balancing.mode=suggest` the plan waits for you. `/debug/balancing` shows it.",
)
MOVING_PARTITIONS = GaugeDefinition(
    name="penstock_balancing_moving_partitions",
    help="Partitions that self-balancing moves now.",
    healthy="at most `self.balancing.moves.max`, and 0 at rest",
    otherwise="A value that stays means that a move does not end. Look at the lag of the followers that receive replicas.",
)
DECOMMISSIONING = GaugeDefinition(
    name="penstock_decommissioning_replicas",
    help="Replicas on nodes with decommission=true.",
    healthy="falls to 0, then the nodes can be stopped",
    otherwise="`/debug/balancing` tells why a replica cannot move.",
)
UNOWNED_SHARDS = GaugeDefinition(
    name="penstock_unowned_shards",
    help="Shards of internal topics that no live coordinator owns.",
    healthy="0, but for seconds after the death of a coordinator",
    otherwise="Start a group coordinator. Until then the groups of these shards wait.",
)
METADATA_REVISION = GaugeDefinition(
    name="penstock_metadata_revision",
    help="The etcd revision of the metadata that this process has seen.",
    healthy="alike on all controllers",
    otherwise="A controller that stays behind does not hear from etcd. Look at its log.",
)
WAITING_REQUESTS = GaugeDefinition(
    name="penstock_controller_waiting_requests",
    help="Administrative requests that wait for their turn, or run.",
    healthy="below 10",
    otherwise="Writes to etcd are slow, or clients create and alter many topics. Look at etcd's disk.",
)
ELECTIONS = HistogramDefinition(
    name="kafka_controller_controllerstats_leaderelectionrateandtime_seconds",
    help="Leader elections, and the time of each from the decision until the new leader was written and seen.",
    healthy="below 1 s; rises only when storage nodes stop or start",
    otherwise="Slow elections: look at etcd. Many elections: look for storage nodes that restart or hang.",
)
UNCLEAN_ELECTIONS = CounterDefinition(
    name="kafka_controller_controllerstats_uncleanleaderelections",
    help="Elections of a leader that may lack acknowledged records. "
    "No other replica was left, or `unclean.leader.election.enable` is true.",
    healthy="0",
    otherwise="Acknowledged records may be lost. The controller's log names the partitions.",
)


class _State(Collector):
    """A collector that computes its samples when scraped: nothing is counted while nobody looks."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def collect(self) -> Iterator[Metric]:
        for definition, value in gauges(self._controller):
            yield definition.sample(value)
        yield ELECTIONS.sample(self._controller.election_times)
        yield UNCLEAN_ELECTIONS.sample(self._controller.unclean_elections)


def gauges(controller: Controller) -> list[tuple[GaugeDefinition, float]]:
    image = controller.image
    alive = image.members(STORAGE).keys()
    partitions, offline, moved = _partitions(image)
    return [
        (ACTIVE, float(controller.elected)),
        (TOPICS, len(image.topics)),
        (PARTITIONS, partitions),
        (OFFLINE_PARTITIONS, offline),
        (PREFERRED_IMBALANCE, moved),
        (ACTIVE_BROKERS, len(alive)),
        (FENCED_BROKERS, len(image.nodes.keys() - alive)),
        (PLANNED_STEPS, len(controller.balancing.plan.steps)),
        (MOVING_PARTITIONS, len(moving(image))),
        (DECOMMISSIONING, replicas_on(image, leaving(image))),
        (UNOWNED_SHARDS, unowned(image)),
        (METADATA_REVISION, image.revision),
        (WAITING_REQUESTS, controller.waiting),
    ]


def _partitions(image: ClusterImage) -> tuple[int, int, int]:
    states = [state for topic_id in image.topics_by_id for state in image.partitions_of(topic_id)]
    offline = sum(1 for state in states if state is None or state.leader < 0)
    moved = sum(1 for state in states if state is not None and 0 <= state.leader != state.replicas[0].node_id)
    return len(states), offline, moved


def register(metrics: Metrics, controller: Controller) -> None:
    metrics.registry.register(_State(controller))
