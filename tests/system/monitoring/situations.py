"""What can be wrong with a cluster, each as a story: it is broken, the alerts fire, it is mended."""

import os
import resource
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Final

from confluent_kafka import Consumer
from confluent_kafka.admin import NewTopic

from services.pipeline.observing.lag import Lag
from tests.gateway.kafka_client import frame, produce_body
from tests.gateway.produce_requests import BATCH
from tests.support.polling import eventually, rounds
from tests.system.faults.small_disks import cut_power, free_bytes
from tests.system.faults.stored_records import set_quota
from tests.system.monitoring.prometheus_server import ASK_EVERY_S
from tests.system.monitoring.stage import (
    CONNECTIONS_MAX,
    DISK_NODE,
    FILLED,
    LOADED,
    OLD,
    PIPELINE_JOB,
    RISKY,
    SINGLE,
    Stage,
    commit,
    group_settings,
    make_topics,
    produce,
    read_first,
    transaction,
)

DAY_MS: Final = 86_400_000
TENANTS_QUOTAS: Final = {"producer_byte_rate": 2000.0, "consumer_byte_rate": 1e6, "request_percentage": 200.0}
"""It exceeds the first alone."""
ALL_IN_SYNC: Final = "sum(kafka_server_replicamanager_underreplicatedpartitions) == 0"
STARTING: Final = (
    "PenstockNoActiveController",
    "PenstockNoQuotaManager",
    "PenstockProcessDown",
    "PenstockUnownedShards",
    "PenstockRebalanceStuck",
)
"""What a cluster that has just been started may tell for a moment."""
WITHOUT_NODES: Final = (
    "PenstockNodeFenced",
    "PenstockLeadersNotPreferred",
    "PenstockUnderReplicated",
    "PenstockIsrUnstable",
    "PenstockProduceSlow",
)
"""What the absence of storage nodes may bring about besides."""
PRODUCERS: Final = ("PenstockBatchesParked", "PenstockProducesExpired", "PenstockProducesHeldUp")
"""What producers may meet then: a batch comes to its leader before or after the leader is gone."""


def nothing_runs(stage: Stage) -> None:
    with stage.watch.situation("nothing runs", "PenstockAbsent", may=STARTING):
        stage.watch.fires("PenstockAbsent")
        stage.cluster.up()


def a_storage_node_is_away(stage: Stage) -> None:
    """It has no replica yet: topics are made meanwhile."""
    with stage.watch.situation("a storage node is away", "PenstockProcessDown", "PenstockNodeFenced"):
        stage.cluster.kill(DISK_NODE)
        make_topics(stage)
        stage.trickle.start()
        with transaction(stage.cluster.bootstrap, "first"):
            commit(stage.cluster.bootstrap, "first", LOADED, 0)
        stage.watch.fires("PenstockProcessDown", "PenstockNodeFenced")
        stage.cluster.up()
    stage.admin.create_all([NewTopic(FILLED, 4, replica_assignment=[[4]] * 4)])


def clients_misbehave(stage: Stage) -> None:
    """A group stays behind, a transaction stays open, a member does not join again, a client exceeds its quota."""
    bootstrap, old_ms = stage.cluster.bootstrap, int(time.time() * 1000) - 2 * DAY_MS
    expected = (
        "PenstockGroupLags",
        "PenstockTransactionOpenLong",
        "PenstockLateTransactions",
        "PenstockRebalanceStuck",
        "PenstockClientsThrottled",
    )
    with stage.watch.situation("clients misbehave", *expected):
        produce(bootstrap, OLD, timestamp_ms=old_ms)
        commit(bootstrap, "behind", OLD, 0)
        set_quota(stage.cluster, TENANTS_QUOTAS, client_id="tenant")
        with transaction(bootstrap, "long", timestamp_ms=old_ms), _a_member_that_does_not_join_again(bootstrap):
            for _ in rounds("the alerts of clients", pause_s=ASK_EVERY_S):
                produce(bootstrap, LOADED, 0, client_id="tenant", records=5)
                read_first(bootstrap, OLD, client_id="tenant")
                if stage.prometheus.firing() >= set(expected):
                    break
        set_quota(stage.cluster, None, client_id="tenant")
        commit(bootstrap, "behind", OLD, 1)


@contextmanager
def _a_member_that_does_not_join_again(bootstrap: str) -> Iterator[None]:
    first, second = (Consumer(group_settings(bootstrap, "stuck")) for _ in range(2))
    try:
        first.subscribe([LOADED])
        for _ in rounds("the first member's assignment"):
            first.poll(0.1)
            if first.assignment():
                break
        second.subscribe([LOADED])
        second.poll(0.1)
        yield
    finally:
        first.close()
        second.close()


def clients_take_all_room(stage: Stage) -> None:
    """All connections, most descriptors, and with three requests that never arrive whole the room for requests."""
    expected = (
        "PenstockConnectionsNearLimit",
        "PenstockConnectionsRefused",
        "PenstockClientsUnread",
        "PenstockDescriptorsNearLimit",
    )
    gateway = stage.cluster.pid("gateway-1")
    limits = resource.prlimit(gateway, resource.RLIMIT_NOFILE)
    with stage.watch.situation("clients take all room", *expected), ExitStack() as opened:

        def connect() -> socket.socket:
            return opened.enter_context(socket.create_connection(("127.0.0.1", stage.cluster.shape.port)))

        for _ in range(3):
            connect().sendall(struct.pack(">ihh", 60 << 20, 0, 9))
        for _ in rounds("all room is taken", pause_s=ASK_EVERY_S):
            for _ in range(CONNECTIONS_MAX // 10):
                connect()
            if (used := len(os.listdir(f"/proc/{gateway}/fd"))) > CONNECTIONS_MAX:
                resource.prlimit(gateway, resource.RLIMIT_NOFILE, (int(used / 0.82), limits[1]))
            if stage.prometheus.firing() >= set(expected):
                break
        resource.prlimit(gateway, resource.RLIMIT_NOFILE, limits)


def the_pipeline_is_behind(stage: Stage) -> None:
    with stage.watch.situation("the pipeline is behind", "PenstockPipelineBehind", "PenstockDeadLetters"):
        stream = stage.pipeline.of(PIPELINE_JOB)
        stream.batches.observe(3.0)
        stream.lags["packages"] = Lag(1000, int(time.time() * 1000) - DAY_MS)
        for _ in rounds("the alerts of the pipeline", pause_s=ASK_EVERY_S):
            stream.rows += 10
            stream.bytes += 1000
            stream.dead_letters += 1
            if stage.prometheus.firing() >= {"PenstockPipelineBehind", "PenstockDeadLetters"}:
                break
        stream.lags["packages"] = Lag(0, None)


def a_follower_stalls(stage: Stage) -> None:
    """It stands still for a second, again and again, and catches up between. One Produce expires, another waits.

    The controller takes a node for dead that is silent for two seconds. So the leader's count ends each stall, and not a timeout
    of librdkafka, which looks at those once a second.
    """
    expected = ("PenstockProduceSlow", "PenstockProducesExpired", "PenstockProducesHeldUp")
    with stage.watch.situation("a follower stalls", *expected, may=(*WITHOUT_NODES, "PenstockProcessDown")):
        for _ in rounds("the alerts of followers", pause_s=ASK_EVERY_S):
            _stall_storage_2(stage)
            eventually(lambda: stage.prometheus.query(ALL_IN_SYNC), pause_s=ASK_EVERY_S)
            if stage.prometheus.firing() >= set(expected):
                break


def _stall_storage_2(stage: Stage) -> None:
    before = _expired_produces(stage)
    with ThreadPoolExecutor(2) as pool:
        stage.cluster.kill("storage-2", signal.SIGSTOP)
        pool.submit(produce, stage.cluster.bootstrap, LOADED, 0)
        pool.submit(produce, stage.cluster.bootstrap, LOADED, 0, request_timeout_ms=500, message_timeout_ms=1400)
        eventually(lambda: _expired_produces(stage) >= before + 2)
        stage.cluster.kill("storage-2", signal.SIGCONT)


def _expired_produces(stage: Stage) -> float:
    """Of the leader of `LOADED`'s first partition."""
    name = "kafka_server_delayedoperationpurgatory_expired_produces_total "
    lines = stage.cluster.admin("storage-1", "/metrics").splitlines()
    return next(float(line.removeprefix(name)) for line in lines if line.startswith(name))


def a_disk_is_full(stage: Stage) -> None:
    with stage.watch.situation("a disk is full", "PenstockDiskFull", "PenstockDiskAlmostFull"):
        ballast = stage.disks[0] / "ballast"
        subprocess.run(["fallocate", "--length", str(free_bytes(stage.disks[0]) - 4096), str(ballast)], check=True)
        for partition in range(4):
            produce(stage.cluster.bootstrap, FILLED, partition, records=100, message_timeout_ms=1000)
        stage.watch.fires("PenstockDiskFull", "PenstockDiskAlmostFull")
        ballast.unlink()


def a_disk_fails(stage: Stage) -> None:
    """Nothing mends it, so this comes last."""
    expected = ("PenstockLogDirectoryOffline", "PenstockPartitionsOffline")
    with stage.watch.situation("a disk fails", *expected, may=("PenstockBatchesParked",), mended=False):
        cut_power(stage.disks[1])
        for partition in range(4):
            produce(stage.cluster.bootstrap, FILLED, partition, message_timeout_ms=1000)
        stage.watch.fires(*expected)


def storage_nodes_die(stage: Stage) -> None:
    """Two of the three replicas, then an election of the one that had fallen behind."""
    expected = (
        "PenstockProcessDown",
        "PenstockNodeFenced",
        "PenstockUnderReplicated",
        "PenstockPartitionsOffline",
        "PenstockUnderMinIsr",
        "PenstockUncleanElection",
        "PenstockIsrUnstable",
        "PenstockLeadersNotPreferred",
        "PenstockBatchesParked",
    )
    with stage.watch.situation("storage nodes die", *expected, may=(*WITHOUT_NODES, *PRODUCERS)):
        stage.cluster.kill("storage-2")
        stage.watch.fires("PenstockProcessDown", "PenstockNodeFenced", "PenstockUnderReplicated", "PenstockLeadersNotPreferred")
        produce(stage.cluster.bootstrap, RISKY)
        stage.cluster.kill("storage-3")
        _batches_wait(stage, "PenstockPartitionsOffline", "PenstockUnderMinIsr", "PenstockBatchesParked")
        stage.cluster.start("storage-2")
        stage.watch.fires("PenstockUncleanElection")
        stage.cluster.up()


def _batches_wait(stage: Stage, *until: str) -> None:
    """Sends a batch again and again, though its partition has no leader. librdkafka would wait for a leader itself."""
    body = produce_body(9, [(SINGLE, [(0, BATCH)])], timeout_ms=30_000)
    with socket.create_connection(("127.0.0.1", stage.cluster.shape.port)) as client:
        for number in rounds("the alerts of dead nodes", pause_s=ASK_EVERY_S):
            client.sendall(frame(0, 9, number, body))
            if stage.prometheus.firing() >= set(until):
                break


def the_controller_and_a_gateway_are_away(stage: Stage) -> None:
    expected = ("PenstockNoActiveController", "PenstockProcessDown", "PenstockGatewaySilent")
    with stage.watch.situation(
        "the controller and a gateway are away", *expected, may=("PenstockProduceSlow", "PenstockRebalanceStuck")
    ):
        set_quota(stage.cluster, TENANTS_QUOTAS, client_id="tenant")  # without a limit nobody needs a gateway's answers
        stage.cluster.kill("controller-1")
        stage.cluster.kill("gateway-1", signal.SIGSTOP)
        try:
            stage.watch.fires(*expected)
        finally:
            stage.cluster.kill("gateway-1", signal.SIGCONT)
        stage.cluster.up()
        set_quota(stage.cluster, None, client_id="tenant")


def coordinators_and_the_quota_manager_are_away(stage: Stage) -> None:
    """Meanwhile the controller is started again and again."""
    expected = ("PenstockUnownedShards", "PenstockNoQuotaManager", "PenstockProcessDown", "PenstockProcessRestarts")
    with stage.watch.situation(
        "coordinators and the quota manager are away", *expected, may=(*STARTING, "PenstockGatewaySilent")
    ):
        for name in ("group_coordinator-1", "transaction_coordinator-1", "quota_manager-1"):
            stage.cluster.kill(name)
        for _ in rounds("the alert of restarts"):
            _restart(stage, "controller-1")
            if "PenstockProcessRestarts" in stage.prometheus.firing():
                break
        stage.watch.fires(*expected)
        stage.cluster.up()


def _restart(stage: Stage, process: str) -> None:
    """Returns when Prometheus knows it."""
    before = _started_at(stage, process)
    stage.cluster.restart(process, signal.SIGKILL)
    eventually(lambda: _started_at(stage, process) > before, pause_s=ASK_EVERY_S)


def _started_at(stage: Stage, process: str) -> float:
    """As Prometheus knows. 0: it does not."""
    host, port = stage.cluster.admin_address(process)
    return max(
        (value for _, value in stage.prometheus.query(f'process_start_time_seconds{{instance="{host}:{port}"}}')), default=0.0
    )


def etcd_hangs(stage: Stage) -> None:
    """`make status` would be no measure of what is mended: for ten minutes it names a follower that stalled five times."""
    expected = ("PenstockMetadataStoreFails", "PenstockMetadataStoreSlow")
    with stage.watch.situation("etcd hangs", *expected, may=(*STARTING, *WITHOUT_NODES, *PRODUCERS)):
        stage.cluster.kill("etcd", signal.SIGSTOP)
        stage.watch.fires(*expected)
        stage.cluster.kill("etcd", signal.SIGCONT)


SITUATIONS: Final[tuple[Callable[[Stage], None], ...]] = (
    nothing_runs,
    a_storage_node_is_away,
    clients_misbehave,
    clients_take_all_room,
    the_pipeline_is_behind,
    a_follower_stalls,
    a_disk_is_full,
    storage_nodes_die,
    the_controller_and_a_gateway_are_away,
    coordinators_and_the_quota_manager_are_away,
    etcd_hangs,
    a_disk_fails,
)
"""In the order in which they are played."""
