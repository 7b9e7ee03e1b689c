"""Storage nodes on this host, on others, and in containers beside this one."""

import pytest

from libs.cluster import keys
from libs.cluster.records import Member
from tests.gateway.conftest import HOST_ID, TOPIC, UNREACHABLE, Rig
from tests.gateway.kafka_client import FETCH, fetch_body
from tests.support.polling import until


async def test_a_node_whose_socket_is_not_here_is_reached_by_tcp_though_it_shares_our_kernel(rig: Rig) -> None:
    await rig.start()
    node = rig.nodes[1]
    await rig.register_by_tcp(node)
    (await rig.client(1)).ask(FETCH, 12, fetch_body(12, [(TOPIC, [(0, 0)])], max_wait_ms=5000))
    await until(lambda: len(node.fetches) == 1)
    assert node.asked_by is not None
    assert node.asked_by.uid is None, "by TCP there are no credentials of a process"
    assert node.fetches[0].inline, "by TCP there are no descriptors"


async def test_a_node_without_any_address_that_leads_to_it_is_not_tried_and_said_once(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = await rig.start()
    await rig.put(keys.member("storage", 1), Member("storage", 1, 2, HOST_ID, unix_address=UNREACHABLE))
    await rig.put(keys.member("controller", 1), Member("controller", 1, 2, "another-host", unix_address=UNREACHABLE))
    for epoch in range(1, 4):
        await rig.lead(0, 2, epoch)
    await gateway.wait_for_revision(rig.store.keyspace.revision, 5)
    assert gateway.data_path.nodes.ready(1) is None
    assert gateway.data_path.nodes.controller() is None
    said = [record for record in caplog.records if "no address" in record.message]
    assert len(said) == 2
    # It returns at an address that can be reached.
    await rig.register(rig.nodes[1])
    await until(lambda: gateway.data_path.nodes.ready(1) is not None)
