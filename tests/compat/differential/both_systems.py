"""Apache Kafka and Penstock side by side, one broker each, with the topics that the scenarios need."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar

from libs.coordinator.core.shard_hashing import shard_of
from tests.compat.differential.comparison import Path, differences, normalise
from tests.compat.differential.scenario import Fields, Scenario, Step, World
from tests.compat.differential.shown_changes import wait_until_shown
from tests.compat.differential.systems import KAFKA, TIMEOUT_S, PendingResponse, System
from tests.support.polling import eventually

TOPICS_AT_ONCE = 50
READY_WITHIN_S = 120.0
OFFSETS_VERSION = 7
A_GROUP_FOR_EACH_SHARD = list({shard_of(str(number), 50): str(number) for number in range(1000)}.values())

TRANSACTIONAL_ID_NOT_FOUND = 105

Difference = tuple[Path, Any, Any]
T = TypeVar("T")


class BothSystems:
    def __init__(self, kafka: System, penstock: System) -> None:
        self.kafka = kafka
        self.penstock = penstock
        self._both = ThreadPoolExecutor(2)

    def prepare(self, scenarios: Iterable[Scenario]) -> None:
        """Creates what the scenarios need; returns when both serve it."""
        named = [(scenario, name) for scenario in scenarios for name in scenario.topics()]
        theirs = [_new_topic(name, scenario.partitions, scenario.configs) for scenario, name in named]
        ours = [_new_topic(name, scenario.partitions, {**scenario.configs, **scenario.own_configs}) for scenario, name in named]
        list(self._both.map(_create, (self.kafka, self.penstock), (theirs, ours)))

    def compare(self, scenario: Scenario) -> Iterator[tuple[int, Difference]]:
        """(version, difference) for everything that differs."""
        for version in scenario.each_version():
            kafka, penstock = self._both.map(lambda system: _answer(system, scenario, version), (self.kafka, self.penstock))  # noqa: B023
            for found in differences(kafka, penstock):
                yield version, found

    def on_both(self, run: Callable[[System], T], *, topic: str) -> tuple[T, T]:
        """What Kafka's run and Penstock's run return, side by side, with a new topic of one partition."""

        def each(system: System) -> T:
            _create(system, [_new_topic(topic, 1, {})])
            return run(system)

        kafka, penstock = self._both.map(each, (self.kafka, self.penstock))
        return kafka, penstock

    def __enter__(self) -> "BothSystems":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._both.shutdown()


def check(both: BothSystems, scenario: Scenario) -> None:
    """Fails unless the two differ in what the scenario lists, and in all of that."""
    unseen = list(scenario.differs)
    unlisted = []
    for version, (path, kafka, penstock) in both.compare(scenario):
        row = next((row for row in scenario.differs if row.covers(version, path, kafka, penstock)), None)
        if row is None:
            unlisted.append(f"version {version} {'.'.join(path)}\n    Kafka:    {kafka!r}\n    Penstock: {penstock!r}")
        elif row in unseen:
            unseen.remove(row)
    assert not unlisted, "differs, and is not listed:\n" + "\n".join(unlisted)
    assert not unseen, f"is listed, and does not differ: {unseen}"


def _answer(system: System, scenario: Scenario, version: int) -> Any:
    world = World(system, version, scenario.topic(version), scenario.client_id(version))
    system.member_ids.clear()
    steps = list(scenario.before(world)) if scenario.before else []
    try:
        for step in steps:
            _take(system, world, step)
        return _results(system, scenario, world, [step.left for step in steps])
    finally:
        for response in world.responses:
            response.close()


def _take(system: System, world: World, step: Step) -> None:
    fields = step.fields(world) if callable(step.fields) else step.fields
    if not step.parked_in:
        response = _answer_of(world, step, fields)
        world.responses.append(PendingResponse(step.api, step.version, response=response))
        wait_until_shown(system, step.api, fields, response)
        return
    world.responses.append(system.park(step.api, step.version, fields))
    group = fields["group_id"]
    eventually(lambda: _state_of(system, group) == step.parked_in, TIMEOUT_S)


def _answer_of(world: World, step: Step, fields: Fields) -> Fields | str:
    responses: list[Fields | str] = []

    def is_so() -> bool:
        responses.append(world.system.ask(step.api, step.version, fields, client_id=world.client_id))
        return step.until is None or (isinstance(responses[-1], dict) and step.until(responses[-1]))

    eventually(is_so, TIMEOUT_S)
    return responses[-1]


def _state_of(system: System, group_id: str) -> str:
    described = system.ask("describe_groups", 5, {"groups": [group_id]})
    assert isinstance(described, dict), f"{system.name}: {described}"
    return str(described["groups"][0]["group_state"])


def _results(system: System, scenario: Scenario, world: World, left: list[bool]) -> Any:
    version = world.version
    asked = scenario.ask(world)
    timeout_s = scenario.timeout_s if system.name == KAFKA else TIMEOUT_S
    if isinstance(asked, bytes):
        answered_in = version if scenario.answer_version is None else scenario.answer_version
        answer: Any = system.ask_raw(scenario.api, answered_in, asked, timeout_s=timeout_s)
    else:
        answer = system.ask(scenario.api, version, asked, timeout_s=timeout_s, client_id=world.client_id)
        wait_until_shown(system, scenario.api, asked, answer)
    results = {f"before {i}": normalise(each.answer(), system) for i, each in enumerate(world.responses) if not left[i]}
    answer = normalise(answer, system)
    if not results:
        return answer
    return {**results, **(answer if isinstance(answer, dict) else {"answer": answer})}


def _new_topic(name: str, partitions: int, values: Mapping[str, str]) -> Fields:
    configs = [{"name": key, "value": value} for key, value in values.items()]
    return {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": configs}


def _create(system: System, topics: list[Fields]) -> None:
    for first in range(0, len(topics), TOPICS_AT_ONCE):
        answer = system.ask("create_topics", 7, {"topics": topics[first : first + TOPICS_AT_ONCE], "timeout": 30_000})
        assert isinstance(answer, dict), f"{system.name}: {answer}"
        for topic in answer["topics"]:
            assert topic["error_code"] == 0, f"{system.name}: {topic}"
            system.topic_ids[topic["name"]] = topic["topic_id"]

    def gives_producer_ids() -> bool:
        """Kafka gets its first block of producer ids when the first of them is asked for."""
        given = system.ask("init_producer_id", 0, {"transactional_id": None, "transaction_timeout": 1000})
        return isinstance(given, dict) and not given["error_code"]

    eventually(gives_producer_ids, READY_WITHIN_S)
    # The topics of groups and transactions are made when somebody first looks for a coordinator. Then their shards are loaded.
    system.ask("find_coordinator", 3, {"key": "t", "key_type": 1})

    def has_loaded_its_transactions() -> bool:
        described = system.ask("describe_transactions", 0, {"transactional_ids": A_GROUP_FOR_EACH_SHARD})
        states = described["transaction_states"] if isinstance(described, dict) else [{"error_code": -1}]
        return all(state["error_code"] == TRANSACTIONAL_ID_NOT_FOUND for state in states)

    eventually(has_loaded_its_transactions, READY_WITHIN_S)
    system.ask("find_coordinator", 3, {"key": "g", "key_type": 0})
    everywhere = [{"group_id": name, "member_id": None, "member_epoch": -1, "topics": None} for name in A_GROUP_FOR_EACH_SHARD]

    def has_loaded_its_shards() -> bool:
        fetched = system.ask("offset_fetch", 9, {"groups": everywhere, "require_stable": False})
        return isinstance(fetched, dict) and not any(group["error_code"] for group in fetched["groups"])

    eventually(has_loaded_its_shards, READY_WITHIN_S)
    cluster = system.ask("describe_cluster", 0, {})
    assert isinstance(cluster, dict)
    system.cluster_id = cluster["cluster_id"]
    partitions = {topic["name"]: range(topic["num_partitions"]) for topic in topics}
    ends = [
        {"name": name, "partitions": [{"partition_index": i, "timestamp": -1} for i in indexes]}
        for name, indexes in partitions.items()
    ]

    def serves_all_partitions() -> bool:
        listed = system.ask("list_offsets", OFFSETS_VERSION, {"replica_id": -1, "topics": ends})
        assert isinstance(listed, dict), f"{system.name}: {listed}"
        return not any(partition["error_code"] for topic in listed["topics"] for partition in topic["partitions"])

    eventually(serves_all_partitions, READY_WITHIN_S)
