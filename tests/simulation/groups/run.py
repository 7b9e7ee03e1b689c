"""One seed of one group: its clients and its coordinator live through faults, everything heals, and it must come to rest."""

import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from libs.runtime.shards.tables import Journal
from services.group_coordinator.core.classic.settings import ClassicSettings
from services.group_coordinator.core.consumer.settings import ConsumerSettings
from services.group_coordinator.core.machine import GroupMachine
from services.group_coordinator.core.settings import GroupSettings
from services.group_coordinator.core.topics_view import TopicsView, TopicView
from tests.group_coordinator.named_topics import topic_id
from tests.simulation.groups.bench import Bench, Violated
from tests.simulation.groups.checks import Checks
from tests.simulation.groups.classic_clients import Classic, SelfAssigned
from tests.simulation.groups.consumer_clients import Consumer
from tests.simulation.groups.faults import Faults
from tests.simulation.groups.lines import Lines
from tests.simulation.groups.operator import Operator
from tests.simulation.groups.owner import Owner, Wire
from tests.simulation.groups.partition import Partition
from tests.simulation.groups.reading import BEAT_MS, REBALANCE_MS, SESSION_MS, Client
from tests.simulation.groups.rest import Rest

FAULTY_MS, HEALED_MS = 30_000, 150_000
LOOK_MS = 500
CALM_LOOKS = 6
LATEST_MS = 5_000
"""What was sent arrives within so long, and may be written then."""
FAULT_MS = 1500
KINDS = ("eager", "cooperative", "consumer", "simple", "mixed")
WEIGHTS = (25, 25, 30, 5, 15)


@dataclass(slots=True)
class Report:
    seed: int
    kind: str = ""
    digest: str = ""
    steps: int = 0
    asked: int = 0
    acknowledged: int = 0
    fetched: int = 0
    generations: int = 0
    converted: int = 0
    owners: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)


class GroupRun:
    def __init__(self, seed: int, *, tells: bool = False) -> None:
        self.seed = seed
        bench = self.bench = Bench(seed, tells=tells)
        random = self.random = bench.random
        self.kind = random.choices(KINDS, WEIGHTS)[0]
        self.checks = Checks(bench)
        self.partition = Partition(bench, self.checks.committed)
        self.wire = Wire(bench)
        self.lines = Lines(bench, self.checks)
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
        self.operator = Operator(self)
        self.faults = Faults(self)
        self.new_owner()

    def _client(self, number: int) -> Client:
        instance = f"i{number}" if number in (1, 2) and self.random.random() < 0.5 else None
        if self.kind == "simple":
            return SelfAssigned(self, number)
        if self.kind == "consumer" or (self.kind == "mixed" and self.random.random() < 0.5):
            return Consumer(self, number, instance)
        return Classic(self, number, instance, cooperative=self.cooperative)

    # -- the world --------------------------------------------------------------------------------------------------------

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
        owner = Owner(self.bench, self.partition, self.wire, epoch, self.make, self.lines.answer)
        self.owners.append(owner)
        self.bench.tell(f"owner {epoch} is named")
        self.lines.owner = owner
        for client in self.clients:
            self.bench.later(self.random.random() * self.random.choice((5, 5, 1500)), self._route, client, owner)
        self.operator.line.owner = owner

    def _route(self, client: Client, owner: Owner) -> None:
        if client.line.owner is None or owner.epoch > client.line.owner.epoch:
            client.line.owner = owner

    def next_offset(self) -> int:
        return next(self._offsets)

    def owns(self, client: Client) -> None:
        for other in self.clients:
            if other is not client and not isinstance(other, SelfAssigned) and not isinstance(client, SelfAssigned):
                both = client.reads & other.reads
                if both:
                    self.bench.fail(f"{sorted(both)} is read by {other} and by {client}")

    # -- a run ------------------------------------------------------------------------------------------------------------

    def run(self) -> Report:
        report = Report(self.seed, self.kind)
        bench = self.bench
        bench.tell(f"a {self.kind} group of {len(self.clients)}")
        try:
            for client in self.clients:
                bench.later(self.random.random() * 4000, client.start)
            self.faults.begin(FAULT_MS)
            self.operator.begin()
            bench.run(FAULTY_MS)
            self._heal()
            rest = Rest(self)
            self._until(rest.is_calm, CALM_LOOKS, HEALED_MS, "it does not come to rest")
            rest.check()
            self._end(rest)
        except Violated as violated:
            report.violations.append(str(violated))
        except Exception as error:  # a service that raises is a finding like others, with its story
            bench.tell(f"VIOLATION {error!r}")
            report.violations.append(repr(error))
            self.bench.story += traceback.format_exc().splitlines()
        return self._reported(report)

    def _reported(self, report: Report) -> Report:
        checks = self.checks
        report.digest, report.steps, report.story = self.bench.digest, self.bench.steps, self.bench.story
        report.asked, report.acknowledged, report.fetched = self.lines.asked, checks.acknowledged, checks.fetched
        report.generations, report.converted, report.owners = checks.generations, checks.converted, len(self.owners)
        report.faults = self.faults.counts
        return report

    def _heal(self) -> None:
        self.bench.tell("everything heals")
        self.faults.end()
        self.operator.ends = True
        if self.owner.dead or self.owner.epoch != self.partition.image_owner_epoch:
            self.new_owner()
        for former in self.owners[:-1]:
            former.dismiss()
        for client in self.clients:
            client.line.owner = self.owner
            client.commits = False
            client.paused_ms = 0.0
            if isinstance(client, Classic):
                client.asks_anew = client.cooperative and client.instance is not None
            client.start()

    def _end(self, rest: Rest) -> None:
        for client in self.clients:
            client.crash()
        if self.random.random() < 0.5:  # the next one has heard of none of them
            self.owner.kill()
            self.new_owner()
        rounds = 3 if self.kind != "simple" else 0
        self._until(rest.is_over, 1, rounds * (SESSION_MS + REBALANCE_MS), "somebody is in it for ever")

    def _until(self, holds: Callable[[], str], looks: int, ms_max: int, otherwise: str) -> None:
        """Holds for so many looks in a row. `holds` says what is missing."""
        calm, missing = 0, ""
        records = self.checks.records
        for _ in range(max(ms_max, LATEST_MS) // LOOK_MS):
            self.bench.run(LOOK_MS)
            missing = holds()
            calm = calm + 1 if not missing and records == self.checks.records else 0
            records = self.checks.records
            if calm >= looks:
                return
        self.bench.fail(f"{otherwise}: {missing or 'something is written again and again'}")


def run_one(seed: int, *, tells: bool = False) -> Report:
    return GroupRun(seed, tells=tells).run()
