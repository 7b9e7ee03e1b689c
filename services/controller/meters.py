"""The controller's metrics, by Kafka's names where it has one (kafka.controller:type=KafkaController)."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE
from libs.telemetry.metrics import Metrics
from services.controller.core.decommissioning import leaving
from services.controller.core.moves import moving, replicas_on
from services.controller.service import Controller
from services.controller.shard_owners import unowned

KAFKA = "kafka_controller_kafkacontroller_"
ELECTIONS = "kafka_controller_controllerstats_leaderelectionrateandtime_seconds"
UNCLEAN = "kafka_controller_controllerstats_uncleanleaderelections"


class _State(Collector):
    """Computed when scraped: nothing is counted while nobody looks."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def collect(self) -> Iterator[Metric]:
        for name, doc, value in gauges(self._controller):
            yield GaugeMetricFamily(name, doc, value)
        doc = "Leaders elected, and how long each took from the decision until it was written and seen"
        yield self._controller.election_times.family(ELECTIONS, doc)
        doc = "Leaders elected that may lack acknowledged records: nobody else was left, or unclean election is allowed"
        yield CounterMetricFamily(UNCLEAN, doc, self._controller.elections_at_a_loss)


def gauges(controller: Controller) -> list[tuple[str, str, float]]:
    image = controller.image
    alive = image.members(STORAGE).keys()
    partitions, offline, moved = _partitions(image)
    planned, going = len(controller.balancing.plan.steps), leaving(image)
    return [
        (KAFKA + "activecontrollercount", "1 on the elected controller, else 0", float(controller.elected)),
        (KAFKA + "globaltopiccount", "Topics of the cluster", len(image.topics)),
        (KAFKA + "globalpartitioncount", "Partitions of the cluster", partitions),
        (KAFKA + "offlinepartitionscount", "Partitions without a leader", offline),
        (KAFKA + "preferredreplicaimbalancecount", "Partitions that another than their first replica leads", moved),
        (KAFKA + "activebrokercount", "Storage nodes that are registered", len(alive)),
        (KAFKA + "fencedbrokercount", "Storage nodes that were registered once and are not", len(image.nodes.keys() - alive)),
        ("penstock_balancing_planned_steps", "Moves and leaderships that self-balancing would do next", planned),
        ("penstock_balancing_moving_partitions", "Partitions that the cluster itself is moving", len(moving(image))),
        ("penstock_decommissioning_replicas", "Replicas on nodes that are being decommissioned", replicas_on(image, going)),
        ("penstock_unowned_shards", "Shards of internal topics that no live coordinator owns", unowned(image)),
        ("penstock_metadata_revision", "Revision of the metadata that this process holds", image.revision),
        ("penstock_controller_waiting_requests", "Requests that wait for or run in the pipeline", controller.waiting),
    ]


def _partitions(image: ClusterImage) -> tuple[int, int, int]:
    states = [state for topic_id in image.topics_by_id for state in image.partitions_of(topic_id)]
    offline = sum(1 for state in states if state is None or state.leader < 0)
    moved = sum(1 for state in states if state is not None and 0 <= state.leader != state.replicas[0].node_id)
    return len(states), offline, moved


def register(metrics: Metrics, controller: Controller) -> None:
    metrics.registry.register(_State(controller))
