"""The whole trace of an election: a controller and three storage nodes, one of which leaves. Times of a loss: by the clock."""

import dataclasses
import shutil
import tempfile
from pathlib import Path
from random import Random

from libs.clock import SystemClock
from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.records import CONTROLLER, STORAGE, InSync, Member, PartitionState, Replica, Topic
from libs.cluster.store import KeyValue, RangeResult
from libs.rpc.transport.socket_transport import SocketTransport
from libs.runtime.lifecycle import Lifecycle
from libs.runtime.process import Environment, Identity
from libs.telemetry.tracing.conventions import FORMER_LEADER_ID, LEADER_EPOCH, LEADER_ID, NODE_ID
from libs.telemetry.tracing.recorder import SpanRecorder, Tracing
from libs.telemetry.tracing.sampling import TraceRules
from libs.telemetry.tracing.span import Span
from services.controller import process as controller_process
from services.controller.config import ControllerConfig
from services.controller.controller import Controller
from services.controller.elections.election_traces import DISCONNECTED_S, ELECTIONS_MAX, ElectionTraces
from tests.storage.three_nodes import nodes
from tests.support.failing_spans import FailingSpans
from tests.support.polling import until
from tests.support.span_ring import SpanRing
from tests.tracing.trees import named, of_trace, seconds, tree

HOST_ID = "this-host"
TOPIC_ID = bytes(range(16))
STATE = PartitionState((Replica(1, ""), Replica(2, "")), 1, 10, 0, 0, (InSync(1, 10), InSync(2, 20)))
NEXT = dataclasses.replace(STATE, leader=2, leader_incarnation=20, leader_epoch=1, partition_epoch=1, isr=STATE.isr[1:])


async def test_an_election_shows_how_it_was_decided_written_and_led(tmp_path: Path) -> None:
    sockets, lifecycle, spans = Path(tempfile.mkdtemp(prefix="ps-")), Lifecycle(), SpanRing()
    tracing = Tracing(TraceRules(sample_ratio=0.0), spans)
    controllers: list[Controller] = []

    async def built(controller: Controller) -> None:
        controllers.append(controller)

    try:
        async with nodes(tmp_path, sockets) as three:
            await three.topic("orders", leader=1)
            identity = Identity(CONTROLLER, 1, 1, HOST_ID, "test")
            environment = Environment(identity, SystemClock(), three.store.peer(), SocketTransport(), Random(7), tracing=tracing)
            config = ControllerConfig(node_id=1, etcd=("none",), data_dir=str(tmp_path), rpc_unix=f"{sockets}/controller.sock")
            await controller_process.serve(config, environment, lifecycle, built)
            await until(lambda: controllers[0].elected)
            await three[1].stop()  # as in an upgrade: it has the controller move its leadership first

            def all_spans() -> list[Span]:
                return [span for ring in (spans, *[node.spans for node in three.by_id.values()]) for span in ring]

            def election() -> list[Span]:
                root = next((span for span in all_spans() if span.name == "election orders-0"), None)
                return of_trace(all_spans(), root.context.trace_id) if root is not None else []

            await until(lambda: any(span.name == "lead orders-0" for span in election()))
            found = election()
            await lifecycle.drain()
    finally:
        shutil.rmtree(sockets)
    root_line, *steps = tree(found)
    assert root_line == "election orders-0"
    assert steps == ["  decide", "  write", "  lead orders-0"]
    root, lead = named(found, "election orders-0"), named(found, "lead orders-0")
    assert (root.attributes[FORMER_LEADER_ID], root.attributes[LEADER_EPOCH], root.parent_id) == (1, 1, None)
    assert lead.attributes[NODE_ID] == root.attributes[LEADER_ID] in (2, 3)
    assert lead.attributes[LEADER_EPOCH] == 1
    assert lead.start_ns >= named(found, "write").start_ns
    assert root.end_ns == named(found, "write").end_ns


class Times:
    """Election traces with a clock that a test sets."""

    def __init__(self, spans: SpanRing | None = None) -> None:
        self.now, self.spans = 100.0, spans if spans is not None else SpanRing()
        recorder = SpanRecorder(Tracing(TraceRules(), self.spans), "controller-1-1", SystemClock(), lambda: self.now)
        self.traces = ElectionTraces(recorder, lambda: self.now)

    def wait(self, seconds: float) -> None:
        self.now += seconds


def image_of(*node_ids: int, partitions: int = 1, revision: int = 1) -> ClusterImage:
    """Nodes of which the first leads each partition of a topic."""
    values = {keys.member(STORAGE, each): encode(Member(STORAGE, each, each * 10, HOST_ID)) for each in node_ids}
    values[keys.topic("orders")] = encode(Topic("orders", TOPIC_ID.hex(), partitions))
    for index in range(partitions):
        values[keys.partition(TOPIC_ID, index)] = encode(STATE)
    return ClusterImage.from_range(RangeResult(tuple(KeyValue(key, value, 1, 1, 0) for key, value in values.items()), revision))


def test_the_time_from_the_first_sign_until_the_detector_is_sure_is_the_detection() -> None:
    times = Times()
    times.traces.disconnected(1)
    times.wait(3)
    times.traces.dead(1, 10)
    times.traces.dead(1, 10)
    times.wait(1)
    before, after = image_of(1, 2), image_of(2, revision=2)
    times.traces.follow(before, after)
    times.traces.elected(after, [(TOPIC_ID, 0, NEXT)], times.now, times.now + 0.5, times.now + 2.5)
    spans = list(times.spans)
    assert [(span.name, round(seconds(span), 3)) for span in spans] == [
        ("election orders-0", 6.5),
        ("detect", 3.0),
        ("remove member", 1.0),
        ("decide", 0.5),
        ("write", 2.0),
    ]


def test_an_election_without_a_lost_node_begins_with_its_decision() -> None:
    """An operator's election, or one of a controlled shutdown."""
    times = Times()
    times.traces.elected(image_of(1, 2), [(TOPIC_ID, 0, NEXT)], times.now, times.now + 1, times.now + 2)
    assert [span.name for span in times.spans] == ["election orders-0", "decide", "write"]


def steps_of_an_election(times: Times) -> list[str]:
    before = len(list(times.spans))
    times.traces.elected(image_of(1, 2), [(TOPIC_ID, 0, NEXT)], times.now, times.now + 1, times.now + 2)
    return [span.name for span in list(times.spans)[before:]]


def test_the_loss_of_an_earlier_life_is_not_the_reason_of_a_later_election() -> None:
    times = Times()
    times.traces.dead(1, 9)
    times.wait(3600)
    assert steps_of_an_election(times) == ["election orders-0", "decide", "write"]


def test_a_loss_counts_for_one_run_of_elections() -> None:
    times = Times()
    times.traces.dead(1, 10)
    assert "detect" in steps_of_an_election(times)
    times.wait(3600)
    assert "detect" not in steps_of_an_election(times)


def test_a_connection_that_ended_long_ago_is_no_sign_of_a_loss() -> None:
    times = Times()
    times.traces.disconnected(1)
    times.wait(DISCONNECTED_S + 1)
    times.traces.dead(1, 10)
    times.traces.elected(image_of(1, 2), [(TOPIC_ID, 0, NEXT)], times.now, times.now + 1, times.now + 2)
    assert seconds(named(times.spans, "detect")) == 0.0


def test_the_elections_of_one_run_that_have_traces_are_bounded() -> None:
    times = Times()
    changed = [(TOPIC_ID, index, NEXT) for index in range(1000)]
    times.traces.elected(image_of(1, 2, partitions=1000), changed, times.now, times.now + 1, times.now + 2)
    assert len({span.context.trace_id for span in times.spans}) == ELECTIONS_MAX


def test_a_change_of_the_isr_is_no_election() -> None:
    times = Times()
    smaller = dataclasses.replace(STATE, isr=STATE.isr[:1])
    times.traces.elected(image_of(1, 2), [(TOPIC_ID, 0, smaller)], times.now, times.now + 1, times.now + 2)
    assert not list(times.spans)


def test_a_failure_costs_the_trace_and_not_the_election() -> None:
    times = Times(spans := FailingSpans())
    times.traces.elected(image_of(1, 2), [(TOPIC_ID, 0, NEXT)], times.now, times.now + 1, times.now + 2)
    assert spans.failed == 1
