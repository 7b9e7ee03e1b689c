"""Stories of replicas that move: what is compared is where they came to lie, however late a broker hears of it."""

from typing import Any

from tests.compat.differential.systems import System
from tests.compat.differential.three_nodes import Side

ASKINGS = 5


class Lagging(System):
    """The controller does at once what it is asked. The broker hears of it later, a change at every fifth question."""

    def __init__(self) -> None:
        super().__init__("Lagging", 0)
        self._asked = 0
        self._heard: dict[str, list[int]] = {}
        self._unheard: list[tuple[str, list[int]]] = []

    def ask(self, api: str, version: int, fields: dict[str, Any], *, timeout_s: float = 0.0) -> dict[str, Any] | str:
        (topic,) = fields["topics"]
        match api:
            case "create_topics":
                self._unheard.append((topic["name"], topic["assignments"][0]["broker_ids"]))
                return {"topics": [{"error_code": 0}]}
            case "alter_partition_reassignments":
                self._unheard.append((topic["name"], topic["partitions"][0]["replicas"]))
            case "metadata":
                return {"topics": [self._describe(topic["name"])]}
        return {"topics": []}

    def _describe(self, name: str) -> dict[str, Any]:
        self._asked += 1
        if self._asked % ASKINGS == 0 and self._unheard:
            heard, replicas = self._unheard.pop(0)
            self._heard[heard] = replicas
        if name not in self._heard:
            return {"error_code": 3, "partitions": []}
        replicas = self._heard[name]
        found = {"partition_index": 0, "leader_id": replicas[0], "replica_nodes": replicas, "isr_nodes": replicas}
        return {"error_code": 0, "partitions": [found]}


def test_a_broker_that_has_not_heard_of_a_move_is_waited_for() -> None:
    side = Side(Lagging(), "topic")
    side.place([1, 2])
    side.alter([2, 1])
    side.done()
    side.alter([3, 1])
    side.layout()
    assert [answer for what, answer in side.results if what == "layout"] == [[(2, [2, 1], [1, 2])], [(3, [3, 1], [1, 3])]]
