"""Nodes of one host that keep each other's listening sockets, without services."""

import socket
from collections.abc import Collection, Mapping
from pathlib import Path

from services.node.sibling_link import Sockets
from services.node.siblings import Siblings


class FakePorts:
    """The listening sockets of one node, by broker id."""

    def __init__(self) -> None:
        self.open: dict[int, Sockets] = {}
        self.offers = 0

    def sockets(self, broker_id: int) -> Sockets:
        self.offers += 1
        return self.open.get(broker_id, {})

    def take(self, broker_id: int, sockets: Mapping[str, socket.socket]) -> None:
        self.open[broker_id] = dict(sockets)

    def give_up(self, broker_id: int) -> None:
        for each in self.open.pop(broker_id, {}).values():
            each.close()


class Node:
    def __init__(self, node_id: int, directory: Path) -> None:
        self.node_id, self.ports = node_id, FakePorts()
        self.told: list[set[int]] = []
        self.drained: list[int] = []
        self.siblings = Siblings(
            node_id,
            lambda each: f"{directory}/ports-{each}.sock",
            self.ports,
            on_change=self.on_change,
            drain=lambda broker_id, *_: self.drained.append(broker_id),
        )

    def on_change(self, broker_ids: Collection[int]) -> None:
        self.told.append(set(broker_ids))

    async def start(self) -> "Node":
        self.siblings.listen()
        await self.open()
        return self

    async def open(self) -> None:
        own = await self.siblings.reclaim()
        if not own:
            listening = socket.create_server(("127.0.0.1", 0))
            listening.setblocking(False)
            own = {"PLAINTEXT": listening}
        self.ports.take(self.node_id, own)
        self.siblings.offer()

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.ports.sockets(self.node_id)["PLAINTEXT"].getsockname()
        return host, port

    def stop(self) -> None:
        self.siblings.close()
        for broker_id in list(self.ports.open):
            self.ports.give_up(broker_id)
