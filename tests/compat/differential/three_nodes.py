"""Apache Kafka and Penstock with three nodes each, told the same stories of replicas that move."""

import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.compat.differential.comparison import differences, normalise
from tests.compat.differential.systems import System
from tests.support.polling import eventually

WAIT_S = 60.0

Target = list[int] | None
Layout = list[tuple[int, list[int], list[int]]]
"""Of each partition its leader, its replicas, and its ISR in order."""
Results = list[tuple[str, Any]]


class Side:
    """One system in one story, with a topic of its own. What it is asked and what it says is kept in `told`."""

    def __init__(self, system: System, topic: str) -> None:
        self.system = system
        self.topic = topic
        self.results: Results = []
        self._marks = 0

    def place(self, *replicas: list[int]) -> None:
        """Creates the topic, a list of nodes for each partition. Returns when all are in sync, and led."""
        self._create(self.topic, *replicas)
        self.wait_for(lambda found: [set(p[2]) for p in found] == [set(nodes) for nodes in replicas])

    def alter(self, target: Target, *, partition: int = 0, topic: str | None = None, allow: bool = True) -> None:
        self.alter_all((partition, target), topic=topic, allow=allow)

    def alter_all(self, *targets: tuple[int, Target], topic: str | None = None, allow: bool = True) -> None:
        wanted = [{"partition_index": index, "replicas": nodes} for index, nodes in targets]
        topics = [{"name": self.topic if topic is None else topic, "partitions": wanted}]
        fields = {"timeout": 30_000, "allow_replication_factor_change": allow, "topics": topics}
        self._record(f"alter {targets}", self._ask("alter_partition_reassignments", 1, fields))

    def listed(self) -> None:
        self._record("listed", self._list())

    def elect(self, kind: int, *partitions: int, topic: str | None = None) -> None:
        wanted = [{"topic": self.topic if topic is None else topic, "partitions": list(partitions)}]
        fields = {"election_type": kind, "topic_partitions": wanted, "timeout": 30_000}
        self._record(f"elect {kind} {partitions}", self._ask("elect_leaders", 2, fields))

    def unregister(self, node: int) -> None:
        self._record(f"unregister {node}", self._ask("unregister_broker", 0, {"broker_id": node}))

    def done(self, *isr: int) -> None:
        """Waits until nothing of the topic is being moved; tells where it lies once its ISR is that, or all of its replicas."""
        eventually(lambda: not self._list()["topics"], WAIT_S)
        self._record_layout(lambda found: all(p[2] == sorted(isr or p[1]) for p in found))

    def layout(self, *isr: int) -> None:
        """Tells where the topic lies, once its ISR is that if there is one."""
        self._record_layout(lambda found: not isr or all(p[2] == sorted(isr) for p in found))

    def wait_for(self, holds: Callable[[Layout], bool]) -> Layout:
        return eventually(lambda: found if holds(found := self._layout()) else [], WAIT_S)

    def _record_layout(self, holds: Callable[[Layout], bool]) -> None:
        """Records the layout once all partitions have a leader."""
        self._catch_up()
        self._record("layout", self.wait_for(lambda found: all(p[0] >= 0 for p in found) and holds(found)))

    def _catch_up(self) -> None:
        """Reassignments are answered and listed by a controller. A broker tells what it has heard of, which may be a moment
        older: once it names a topic that is created now, it has heard of whatever was answered before."""
        self._marks += 1
        mark = f"{self.topic}-mark-{self._marks}"
        self._create(mark, [1])
        eventually(lambda: self._metadata(mark)["error_code"] == 0, WAIT_S)

    def _create(self, name: str, *replicas: list[int]) -> None:
        assigned = [{"partition_index": index, "broker_ids": nodes} for index, nodes in enumerate(replicas)]
        topic = {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": assigned}
        (created,) = self._ask("create_topics", 7, {"topics": [topic], "timeout": 30_000})["topics"]
        assert created["error_code"] == 0, f"{self.system.name}: {created}"

    def _layout(self) -> Layout:
        found = sorted(self._metadata(self.topic)["partitions"], key=lambda partition: partition["partition_index"])
        return [(p["leader_id"], p["replica_nodes"], sorted(p["isr_nodes"])) for p in found]

    def _metadata(self, topic: str) -> dict[str, Any]:
        fields = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
        (found,) = self._ask("metadata", 9, fields)["topics"]
        assert isinstance(found, dict)
        return found

    def _list(self) -> dict[str, Any]:
        topics = [{"name": self.topic, "partition_indexes": [0, 1, 2]}]
        return self._ask("list_partition_reassignments", 0, {"timeout": 30_000, "topics": topics})

    def _ask(self, api: str, version: int, fields: dict[str, Any]) -> dict[str, Any]:
        answer = self.system.ask(api, version, fields, timeout_s=WAIT_S)
        assert isinstance(answer, dict), f"{self.system.name}: {answer}"
        return answer

    def _record(self, what: str, answer: Any) -> None:
        self.results.append((what, normalise(answer, self.system)))


Story = Callable[[Side], None]


def run_story(story: Story, kafka: System, penstock: System) -> tuple[Results, Results]:
    sides = [Side(system, story.__name__.replace("_", "-")) for system in (kafka, penstock)]
    with ThreadPoolExecutor(len(sides)) as pool:
        list(pool.map(functools.partial(_run, story), sides))
    return sides[0].results, sides[1].results


def _run(story: Story, side: Side) -> None:
    story(side)


def differing(kafka: Results, penstock: Results) -> dict[str, tuple[Any, Any]]:
    """The differences, by the number of the answer, the question, and the last step of the path."""
    found = {}
    for number, ((asked, there), (_, here)) in enumerate(zip(kafka, penstock, strict=True)):
        for path, one, other in _differences(there, here):
            found[f"{number} {asked} {path}"] = one, other
    return found


def _differences(there: Any, here: Any) -> Iterator[tuple[str, Any, Any]]:
    for path, one, other in differences({"": there}, {"": here}):
        yield path[-1], one, other
