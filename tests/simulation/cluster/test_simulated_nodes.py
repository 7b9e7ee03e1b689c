"""A storage node and a gateway in one simulated process: calls between them go by a link, and what ends one ends both."""

from collections.abc import Callable

import pytest

from libs.cluster.image import ClusterImage
from libs.cluster.records import GATEWAY, STORAGE
from libs.rpc.client.rpc_client import RpcClient
from tests.simulation.cluster.processes import GatewayProcess, Process
from tests.simulation.cluster.repairs import Client
from tests.simulation.cluster.scenarios import Cluster, play

SEED, NODES = 1, 2


def client_of(gateway: GatewayProcess, node_id: int) -> RpcClient:
    """The gateway's client of that storage node."""
    client = gateway.what.data_path.nodes.client(node_id)
    assert isinstance(client, RpcClient)
    return client


def is_linked(gateway: GatewayProcess, node_id: int) -> bool:
    connection = client_of(gateway, node_id).connection
    assert connection is not None
    return connection.stream.link is not None


def test_a_gateway_has_a_link_to_the_storage_node_of_its_process_alone() -> None:
    async def scenario(cluster: Cluster) -> None:
        for gateway in cluster.gateways:
            linked = [node.node_id for node in cluster.storage if is_linked(gateway, node.node_id)]
            assert linked == [gateway.node_id]

    play(SEED, scenario, NODES, nodes=True)


def test_services_in_processes_of_their_own_have_no_links() -> None:
    async def scenario(cluster: Cluster) -> None:
        assert not any(is_linked(gateway, node.node_id) for gateway in cluster.gateways for node in cluster.storage)

    play(SEED, scenario, NODES)


def incarnations(image: ClusterImage) -> list[int]:
    """Of the two services with the id 1. -1: it is not registered."""
    found = [image.members(role).get(1) for role in (STORAGE, GATEWAY)]
    return [-1 if member is None else member.incarnation for member in found]


ENDS: dict[str, Callable[[Process], None]] = {
    "killed": Process.kill,
    "told to stop": Process.stop,
    "without power": Process.power_cut,
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("of", ["storage", "gateways"])
def test_what_ends_one_service_of_a_process_ends_the_other(end: str, of: str) -> None:
    """Both come back as new incarnations, and serve what was acknowledged."""

    async def scenario(cluster: Cluster) -> None:
        node, gateway = cluster.storage[0], cluster.gateways[0]
        client = Client(cluster, gateway=1)
        await client.produce(range(5))
        before = incarnations(await cluster.image())
        ends = node.ended, gateway.ended
        ENDS[end](getattr(cluster, of)[0])
        for ended in ends:
            await ended.wait()
        assert (node.what, gateway.what) == (None, None)
        open_now = [stream for stream in cluster.world.network.streams.values() if not stream.lost]
        assert not any(stream.local in (node.host, gateway.host) for stream in open_now)
        gateway.start()
        assert node.running
        assert node.life is gateway.life
        await cluster.until(lambda image: all(new > old for new, old in zip(incarnations(image), before, strict=True)))
        assert await client.read() == client.acknowledged

    play(SEED, scenario, NODES, nodes=True)


def test_a_process_that_is_held_down_is_not_started_by_its_other_service() -> None:
    async def scenario(cluster: Cluster) -> None:
        node, gateway = cluster.storage[0], cluster.gateways[0]
        node.held_down = True
        node.kill()
        assert not gateway.startable
        node.held_down = False
        assert gateway.startable

    play(SEED, scenario, NODES, nodes=True)


def test_a_link_whose_sockets_are_reset_is_made_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        node = await cluster.leader()
        gateway = cluster.gateways[node.node_id - 1]
        first = client_of(gateway, node.node_id).connection
        assert cluster.world.network.reset(gateway.host, node.host) > 0
        client = Client(cluster, gateway=gateway.node_id)
        await client.produce(range(5))
        assert client_of(gateway, node.node_id).connection not in (None, first)
        assert is_linked(gateway, node.node_id)
        assert await client.read() == client.acknowledged

    play(SEED, scenario, NODES, nodes=True)
