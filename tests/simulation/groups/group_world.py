"""The world of one seed: a group's log, network and clients, and its coordinators one after the other."""

from dataclasses import replace
from itertools import count
from typing import Any

from libs.coordinator.core.tables import Journal
from services.group_coordinator.core.group_machine import GroupMachine
from services.group_coordinator.core.model.classic_settings import ClassicSettings
from services.group_coordinator.core.model.consumer_settings import ConsumerSettings
from services.group_coordinator.core.model.settings import GroupSettings
from services.group_coordinator.core.model.topics_view import TopicsView, TopicView
from tests.group_coordinator.named_topics import topic_id
from tests.simulation.groups.checks import Checks
from tests.simulation.groups.classic_clients import Classic, SelfAssigned
from tests.simulation.groups.consumer_clients import Consumer
from tests.simulation.groups.network import Link, Network
from tests.simulation.groups.partition import Partition
from tests.simulation.groups.reading import BEAT_MS, SESSION_MS, Client
from tests.simulation.groups.shard_owner import Owner, StorageLink
from tests.simulation.groups.simulator import Simulator

KINDS = ("eager", "cooperative", "consumer", "simple", "mixed")
WEIGHTS = (25, 25, 30, 5, 15)


class GroupWorld:
    """The parts of a run that clients, faults, the operator and the checks see."""

    def __init__(self, seed: int, *, verbose: bool = False) -> None:
        simulator = self.simulator = Simulator(seed, verbose=verbose)
        random = self.random = simulator.random
        self.kind = random.choices(KINDS, WEIGHTS)[0]
        self.checks = Checks(simulator)
        self.partition = Partition(simulator, self.checks.committed)
        self.storage_link = StorageLink(simulator)
        self.network = Network(simulator, self.checks)
        self.settings = GroupSettings(
            ClassicSettings(initial_delay_ms=random.choice((0, 500, 3000))),
            consumer=ConsumerSettings(session_timeout_ms=SESSION_MS, heartbeat_interval_ms=BEAT_MS),
        )
        self.topics = TopicsView()
        self.set_topics(t=random.randint(2, 6), u=2)
        self.owners: list[Owner] = []
        self._offsets = count(1)
        cooperative = self.kind == "cooperative" or (self.kind == "mixed" and random.random() < 0.5)
        self.cooperative = cooperative
        self.clients: list[Client] = [self._client(number) for number in range(random.randint(3, 5))]
        if self.kind != "simple":
            self.clients += [SelfAssigned(self, len(self.clients))] if random.random() < 0.3 else []
        self.operator_link = Link(self.network, "operator", in_order=False)

    def _client(self, number: int) -> Client:
        instance = f"i{number}" if number in (1, 2) and self.random.random() < 0.5 else None
        if self.kind == "simple":
            return SelfAssigned(self, number)
        if self.kind == "consumer" or (self.kind == "mixed" and self.random.random() < 0.5):
            return Consumer(self, number, instance)
        return Classic(self, number, instance, cooperative=self.cooperative)

    def make(self, journal: Journal) -> GroupMachine:
        return GroupMachine(journal, lambda: self.settings, lambda _: {}, lambda: self.topics)

    def set_topics(self, **topics: int) -> None:
        self.topics = TopicsView.of(
            self.topics.version + 1, [TopicView(topic_id(name), name, partitions) for name, partitions in topics.items()]
        )

    def change(self, **settings: Any) -> None:
        self.settings = replace(self.settings, **settings)

    @property
    def owner(self) -> Owner:
        return self.owners[-1]

    def new_owner(self) -> None:
        """The image names it. Clients and former owners hear of it later."""
        self.partition.image_owner_epoch += 1
        epoch = self.partition.image_owner_epoch
        owner = Owner(self.simulator, self.partition, self.storage_link, epoch, self.make, self.network.answer)
        self.owners.append(owner)
        self.simulator.log_event(f"owner {epoch} is named")
        self.network.owner = owner
        for client in self.clients:
            self.simulator.later(self.random.random() * self.random.choice((5, 5, 1500)), self._route, client, owner)
        self.operator_link.owner = owner

    def _route(self, client: Client, owner: Owner) -> None:
        if client.link.owner is None or owner.epoch > client.link.owner.epoch:
            client.link.owner = owner

    def next_offset(self) -> int:
        return next(self._offsets)

    def owns(self, client: Client) -> None:
        for other in self.clients:
            if other is not client and not isinstance(other, SelfAssigned) and not isinstance(client, SelfAssigned):
                both = client.reads & other.reads
                if both:
                    self.simulator.fail(f"{sorted(both)} is read by {other} and by {client}")
