"""The faults that a cluster undergoes while clients produce and consume, and how each is healed."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path

from confluent_kafka import ElectionType, TopicPartition

from services.local.upgrade import ORDER
from tests.bench.acknowledged import partition_of
from tests.compat.clients.admin import Admin
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually
from tests.support.previous_version import previous_source
from tests.support.requirements import ROOT
from tests.system.chaos.hosts import Hosts

LEADER = 1
REPLICAS = [1, 2, 3]
"""Of each partition. The first one leads whenever it is in sync and was elected."""
WITHIN_S = 120.0
ESTABLISHED = "01"

Heal = Callable[[], None]


class Faults:
    def __init__(self, cluster: LocalCluster, admin: Admin, topics: list[str], hosts: Hosts | None) -> None:
        """`hosts`: those of the cluster's processes, whose network can fail; None if they share one."""
        self._cluster, self._admin, self._topics, self._hosts = cluster, admin, topics, hosts
        self._versions = (source for _ in count() for source in (previous_source(), ROOT))

    # -- each returns what heals it -----------------------------------------------------------------------------------------

    def nothing(self) -> Heal:
        """The pauses that the machine and the clients have by themselves."""
        return lambda: None

    def leader_killed(self) -> Heal:
        return self._away(f"storage-{LEADER}", signal.SIGKILL)

    def leader_stopped(self) -> Heal:
        return self._away(f"storage-{LEADER}", signal.SIGTERM)

    def gateway_killed(self) -> Heal:
        return self._away(f"gateway-{self._gateway_in_use()}", signal.SIGKILL)

    def leader_silent(self) -> Heal:
        """Its connections stay open, and nothing comes from them."""
        pid = self._cluster.pid(f"storage-{LEADER}")
        os.kill(pid, signal.SIGSTOP)
        return lambda: os.kill(pid, signal.SIGCONT)

    def leader_not_heard(self) -> Heal:
        """Nothing that the leader sends arrives."""
        return self._cut([(f"storage-{LEADER}", name) for name in self._others()])

    def leader_hears_nothing(self) -> Heal:
        return self._cut([(name, f"storage-{LEADER}") for name in self._others()])

    def gateway_deaf_to_leader(self) -> Heal:
        """The gateway in use gets nothing from the leader, and all others do."""
        return self._cut([(f"storage-{LEADER}", f"gateway-{self._gateway_in_use()}")])

    def rolling_restart(self) -> Heal:
        """Every service, one after the other, each when all partitions are whole again."""
        return self._restart_all(ORDER)

    def _restart_all(self, roles: Sequence[str]) -> Heal:
        for role in roles:
            for name in [name for name in self._cluster.names if name.partition("-")[0] == role]:
                self._cluster.restart(name)
                eventually(self.is_whole, WITHIN_S)
        return lambda: None

    def rolling_upgrade(self) -> Heal:
        """All services, one after the other, become those of the former version, the next time those of this one. A service that
        the version lacks stays as it is."""
        version = next(self._versions)
        self._cluster.run_code_of(version)
        return self._restart_all([role for role in ORDER if (version / "services" / role).is_dir()])

    def leaders_returned(self) -> Heal:
        """The leader's node is back in sync, and is elected again."""
        eventually(self.is_whole, WITHIN_S)
        eventually(self._first_is_elected, WITHIN_S)
        return lambda: None

    def _first_is_elected(self) -> bool:
        """Asks for it, which is refused for 10 s after a process could not reach that node."""
        moved = [TopicPartition(topic, 0) for topic in self._topics if self._state(topic)[0] != LEADER]
        if moved:
            self._admin.client.elect_leaders(ElectionType.PREFERRED, moved).result()
        return self.is_led_by_the_first()

    # -- the partitions -----------------------------------------------------------------------------------------------------

    def is_whole(self) -> bool:
        return all(self._state(topic)[1] == len(REPLICAS) for topic in self._topics)

    def is_led_by_the_first(self) -> bool:
        return all(self._state(topic)[0] == LEADER for topic in self._topics)

    def _state(self, topic: str) -> tuple[int, int]:
        return partition_of(self._admin.client, topic)

    # -- processes ----------------------------------------------------------------------------------------------------------

    def _away(self, name: str, number: int) -> Heal:
        self._cluster.kill(name, number)

        def heal() -> None:
            self._cluster.start(name)
            self._cluster.wait_ready()

        return heal

    def _others(self) -> list[str]:
        return [name for name in self._cluster.names if name != f"storage-{LEADER}"]

    def _cut(self, pairs: list[tuple[str, str]]) -> Heal:
        assert self._hosts is not None, "one-way cuts take --hosts"
        cut = ExitStack()
        cut.enter_context(self._hosts.dropped(pairs))
        return cut.close

    def _gateway_in_use(self) -> int:
        """The gateway with most connections to its broker ports."""
        shape = self._cluster.shape
        by_port = {shape.bootstrap_port(gateway) + node: gateway for gateway in range(1, shape.gateways + 1) for node in REPLICAS}
        rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="utf-8").splitlines()[1:]]
        remote = [int(row[2].partition(":")[2], 16) for row in rows if row[3] == ESTABLISHED]
        used = Counter(by_port[port] for port in remote if port in by_port)
        return used.most_common(1)[0][0]


FAULTS: dict[str, Callable[[Faults], Heal]] = {
    "nothing": Faults.nothing,
    "leader-killed": Faults.leader_killed,
    "leader-stopped": Faults.leader_stopped,
    "gateway-killed": Faults.gateway_killed,
    "leader-silent": Faults.leader_silent,
    "rolling-restart": Faults.rolling_restart,
}
CUTS: dict[str, Callable[[Faults], Heal]] = {
    "leader-not-heard": Faults.leader_not_heard,
    "leader-hears-nothing": Faults.leader_hears_nothing,
    "gateway-deaf-to-leader": Faults.gateway_deaf_to_leader,
}
"""One-way cuts of the network. They take a host for each process."""
VERSIONS: dict[str, Callable[[Faults], Heal]] = {"rolling-upgrade": Faults.rolling_upgrade}
"""They take the source of the commit that `tests/upgrade/previous` names."""
RETURNED = "leaders-returned"
"""Measured after each fault that takes the leader away."""
TAKES_LEADERS = ("leader-killed", "leader-stopped", "leader-silent", *CUTS)
