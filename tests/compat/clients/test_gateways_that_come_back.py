"""A gateway dies and comes back, and then the other one dies: clients that ask for Metadata every five minutes find the first."""

import re
from contextlib import ExitStack
from pathlib import Path

from tests.bench.client_gaps.streams import Stream
from tests.compat.clients.admin import Admin
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually
from tests.support.requirements import require

PER_SECOND = 20
CLIENTS = ("java", "kafka-python")
ENDED = r'penstock_gateway_connections_closed_total\{reason="drain"\} (\S+)'


def has_grown(stream: Stream, before: int) -> bool:
    stream.read()
    return len(stream.times_us) >= before + PER_SECOND


def go_on(streams: list[Stream]) -> None:
    """Waits until each stream has had a second's records more."""
    for stream in streams:
        stream.read()
    before = {stream: len(stream.times_us) for stream in streams}
    eventually(lambda: all(has_grown(stream, before[stream]) for stream in streams))


def ended(cluster: LocalCluster) -> int:
    """How many connections the gateway that lived has ended between two requests."""
    found = re.search(ENDED, cluster.admin("gateway-1", "/metrics"))
    return int(float(found[1])) if found else 0


def test_clients_find_the_gateway_that_came_back_before_the_other_one_dies(tmp_path: Path) -> None:
    require("java", "kafka")
    with LocalCluster(storage=2, gateways=2) as cluster, ExitStack() as stack:
        admin = Admin(cluster.bootstrap)
        stack.callback(admin.close)
        ports = {broker.id: broker.port for broker in admin.client.list_topics(timeout=60).brokers.values()}
        leader = next(node for node, port in ports.items() if port == cluster.shape.bootstrap_port(2) + node)
        admin.create("found", 4)
        led = admin.client.list_topics(timeout=60).topics["found"].partitions
        partition = next(number for number, state in led.items() if state.leader == leader)
        asked = [cluster.bootstrap, "found", str(partition), "0", str(PER_SECOND)]
        streams = [
            stack.enter_context(Stream(client, mode, asked, tmp_path / f"{client}-{mode}"))
            for client in CLIENTS
            for mode in ("produce", "consume")
        ]
        go_on(streams)
        cluster.kill("gateway-2")
        go_on(streams)
        cluster.start("gateway-2")
        cluster.wait_ready(["gateway-2"])

        eventually(lambda: ended(cluster) >= len(streams))
        go_on(streams)
        cluster.kill("gateway-1")
        go_on(streams)
        cluster.start("gateway-1")
        cluster.wait_ready(["gateway-1"])
