"""Limits of client connections, and the answers to clients beyond them."""

import asyncio
import logging
from collections.abc import Iterable

import pytest

from services.gateway.core.connection_limits import (
    DESCRIPTORS_PER_FILE,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_IP,
    ConnectionLimits,
    DescriptorShares,
    share_descriptors,
)
from tests.gateway.conftest import Rig
from tests.gateway.kafka_client import RawClient
from tests.gateway.produce_requests import serves
from tests.support.polling import until

REFUSED = "client connection refused"


def refusals(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    return [record.fields for record in caplog.records if record.getMessage() == REFUSED]  # type: ignore[attr-defined]


async def all_end(clients: Iterable[RawClient]) -> bool:
    return all(await asyncio.gather(*(client.ended() for client in clients)))


async def test_a_connection_beyond_the_limit_is_closed_and_the_others_are_served(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    gateway = await rig.start(connections_max=2)
    inside = [await rig.client(1), await rig.client()]
    assert await serves(inside[0])
    assert await all_end([await rig.client(1), await rig.client(), await rig.client(2)])
    assert gateway.meters.refused == {MAX_CONNECTIONS: 3}
    assert gateway.meters.connections == 2
    assert [(line["reason"], line["limit"]) for line in refusals(caplog)] == [(MAX_CONNECTIONS, 2)]
    assert await serves(inside[0])
    await inside[1].close()
    await until(lambda: gateway.meters.connections == 1)
    assert await serves(await rig.client(1)), "the place of the one that left"


async def test_one_address_has_a_limit_of_its_own(rig: Rig) -> None:
    gateway = await rig.start(connections_per_ip_max=1)
    first = await rig.client(1)
    assert await serves(first)
    assert await all_end([await rig.client(1)])
    elsewhere = await rig.client(1, address="127.0.0.2")
    assert await serves(elsewhere)
    assert gateway.meters.refused == {MAX_CONNECTIONS_PER_IP: 1}
    await first.close()
    await until(lambda: gateway.meters.connections == 1)
    assert await serves(await rig.client(1))


async def test_clients_leave_descriptors_for_everything_else(rig: Rig) -> None:
    """The limit of open files alone, without a setting, keeps the flood out."""
    rig.descriptors_max = 16
    gateway = await rig.start()
    clients = [await rig.client() for _ in range(16)]
    await until(lambda: gateway.meters.connections + sum(gateway.meters.refused.values()) == 16)
    assert gateway.meters.connections == 16 - 4 - DESCRIPTORS_PER_FILE
    assert await serves(clients[0])


@pytest.mark.parametrize(
    ("descriptors", "connections_max", "expected"),
    [
        (1_048_576, 0, DescriptorShares(1_046_272, 512)),
        (20_000, 0, DescriptorShares(17_696, 512)),
        (1024, 0, DescriptorShares(512, 64)),
        (256, 0, DescriptorShares(128, 16)),
        (20_000, 100, DescriptorShares(100, 512)),
        (1024, 100_000, DescriptorShares(512, 64)),
    ],
)
def test_descriptors_are_shared_out(descriptors: int, connections_max: int, expected: DescriptorShares) -> None:
    assert share_descriptors(descriptors, connections_max=connections_max, open_files_max=512) == expected


def test_an_ended_connection_counts_no_more() -> None:
    limits = ConnectionLimits(3, 2)
    limits.opened("a")
    limits.opened("a")
    assert (limits.refusal("a"), limits.refusal("b")) == (MAX_CONNECTIONS_PER_IP, None)
    limits.opened("b")
    assert (limits.refusal("a"), limits.refusal("b")) == (MAX_CONNECTIONS, MAX_CONNECTIONS)
    limits.ended("a")
    assert limits.refusal("a") is None
    limits.ended("a")
    limits.ended("b")
    assert limits.by_host == {}
