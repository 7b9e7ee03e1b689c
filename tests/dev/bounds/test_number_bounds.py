"""Each number of each request at its bounds: the answer is a proper error or a success, the connection goes on, no line tells of
a failure, and whatever the requests touched can be ended and deleted."""

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.served_versions import SERVED_VERSIONS
from tests.dev.bounds.connection import Connection, errors_in
from tests.dev.bounds.requests import (
    DELETED_FROM,
    NODE_ID,
    NUMBERS,
    TOPIC,
    Known,
    batch_variants,
    batch_with,
    changed,
    has_numbers,
    plausible,
    variants,
    with_assignments,
    without_assignments,
)
from tests.dev.bounds.schema_codec import Value
from tests.dev.command import Command, running
from tests.support.polling import eventually

APIS: Final = [api_key for api_key, (_, last) in SERVED_VERSIONS.items() if has_numbers(api_key, last)]
TRANSACTIONS: Final = (
    *(ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT),
    ApiKey.WRITE_TXN_MARKERS,
)
CLOSES: Final = (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS)
"""Kafka's own reader refuses kinds of ACLs that it does not know, and the connection ends."""
EXPECTED: Final[dict[ApiKey, tuple[ErrorCode, ...]]] = {
    **dict.fromkeys(CLOSES, (ErrorCode.SECURITY_DISABLED,)),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (ErrorCode.LOG_DIR_NOT_FOUND,),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (ErrorCode.RESOURCE_NOT_FOUND,),
    ApiKey.DELETE_TOPICS: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,),
    ApiKey.ELECT_LEADERS: (ErrorCode.ELECTION_NOT_NEEDED,),
    ApiKey.JOIN_GROUP: (ErrorCode.MEMBER_ID_REQUIRED,),  # in version 4, which has no static members
    ApiKey.LIST_CONFIG_RESOURCES: (ErrorCode.UNSUPPORTED_VERSION,),  # version 0 lists one kind
    ApiKey.UNREGISTER_BROKER: (ErrorCode.BROKER_ID_NOT_REGISTERED,),
}
"""Errors of requests without a wrong number: of what a cluster of one node has not, or must not lose."""
FAILURES: Final = re.compile(r"Traceback|\berror\b|cannot be written|cannot be read", re.IGNORECASE)


class Cluster:
    """A cluster in one process, a connection to it, and what requests may name."""

    def __init__(self, command: Command) -> None:
        self.command = command
        host, _, port = command.bootstrap_servers.rpartition(":")
        self._address = host.strip("[]"), int(port)
        self.connection = self._connect()
        self._producer, self._producer_of = NO_ONE, (ApiKey.API_VERSIONS, -1)
        for kind in (0, 1):  # the first question makes the coordinators' topic
            self.ask(ApiKey.FIND_COORDINATOR, 2, {"key": "any", "key_type": kind})
        for name in (TOPIC, DELETED_FROM):
            request = without_assignments(self._plausible(ApiKey.CREATE_TOPICS, 7, NO_ONE))
            request["topics"][0].update(name=name, num_partitions=2)
            answer = self.ask(ApiKey.CREATE_TOPICS, 7, request)
            assert answer["topics"][0]["error_code"] == 0, answer
            if name == TOPIC:
                topic_id = answer["topics"][0]["topic_id"]
        self.known = NO_ONE._replace(topic_id=topic_id, group="classic", consumer_group="consumer", consumer_member_id="A" * 22)
        self.known = self.known._replace(member_id=self._member("classic"))
        self.produce()

    def _connect(self) -> Connection:
        return Connection(*self._address)

    def reconnect(self) -> None:
        self.connection.close()
        self.connection = self._connect()

    @staticmethod
    def _plausible(api_key: ApiKey, version: int, known: Known) -> Value:
        return plausible(api_key, version, known)

    def ask(self, api_key: ApiKey, version: int, request: Value) -> Value:
        """The answer of whoever is responsible, once it is ready."""
        answer: Value = {}

        def is_ready() -> bool:
            nonlocal answer
            answer = self.connection.ask(api_key, version, request)
            return not {error for _, error in errors_in(answer)} & NOT_READY

        eventually(is_ready)
        return answer

    def plausible(self, api_key: ApiKey, version: int) -> Value:
        """Requests of one API and version about transactions have one producer, with one transaction."""
        known = self.known._replace(number=next(NUMBERS))
        if api_key in TRANSACTIONS:
            if (api_key, version) != self._producer_of:
                self._producer, self._producer_of = self.producer(known), (api_key, version)
            known = self._producer._replace(number=known.number)
        return plausible(api_key, version, known)

    def producer(self, known: Known) -> Known:
        """A transactional producer with a transaction of its own."""
        transactional_id = f"t-{known.number}"
        request = plausible(ApiKey.INIT_PRODUCER_ID, 4, known) | {"transactional_id": transactional_id}
        answer = self.ask(ApiKey.INIT_PRODUCER_ID, 4, request)
        assert answer["error_code"] == 0, answer
        known = known._replace(
            transactional_id=transactional_id, producer_id=answer["producer_id"], producer_epoch=answer["producer_epoch"]
        )
        for adds in (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN):
            assert {error for _, error in errors_in(self.ask(adds, 3, plausible(adds, 3, known)))} == {0}
        return known

    def produce(self) -> None:
        answer = self.ask(ApiKey.PRODUCE, 9, self.plausible(ApiKey.PRODUCE, 9))
        assert errors_in(answer)[0][1] == 0, answer

    def end(self, isolation: int) -> int:
        """The end of the topic's first partition, for readers of that isolation."""
        request = self.plausible(ApiKey.LIST_OFFSETS, 7) | {"isolation_level": isolation}
        partition = self.ask(ApiKey.LIST_OFFSETS, 7, request)["topics"][0]["partitions"][0]
        assert partition["error_code"] == 0
        return int(partition["offset"])

    def _member(self, group: str) -> str:
        request = plausible(ApiKey.JOIN_GROUP, 3, self.known) | {"group_id": group, "session_timeout_ms": 300_000}
        joined = self.ask(ApiKey.JOIN_GROUP, 3, request)
        assert joined["error_code"] == 0, joined
        sync = plausible(ApiKey.SYNC_GROUP, 3, self.known) | {"group_id": group, "member_id": joined["member_id"]}
        assert self.ask(ApiKey.SYNC_GROUP, 3, sync)["error_code"] == 0
        return str(joined["member_id"])


NO_ONE: Final = Known(bytes(16), "", -1, -1, "", "", "", "", 0)
NOT_READY: Final = frozenset(
    map(
        int,
        (
            *(ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR),
            *(ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.CONCURRENT_TRANSACTIONS),
        ),
    )
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("bounds"), seconds_max=600) as command:
        cluster = Cluster(command)
        yield cluster
        cluster.connection.close()


def forms_of(api_key: ApiKey, request: Value) -> list[Value]:
    return [without_assignments(request), with_assignments(request)] if api_key is ApiKey.CREATE_TOPICS else [request]


@pytest.mark.parametrize("api_key", APIS, ids=lambda api_key: api_key.name)
def test_without_a_number_at_its_bound_the_request_is_taken(cluster: Cluster, api_key: ApiKey) -> None:
    """Otherwise an error that comes earlier would keep all numbers from whoever reads them."""
    first, last = SERVED_VERSIONS[api_key]
    for version in range(first, last + 1):
        for form in forms_of(api_key, cluster.plausible(api_key, version)):
            errors = {error for _, error in errors_in(cluster.connection.ask(api_key, version, form))}
            assert errors <= {0, *EXPECTED.get(api_key, ())}, f"version {version}"


@pytest.mark.parametrize("api_key", APIS, ids=lambda api_key: api_key.name)
def test_each_number_may_be_at_its_bounds(cluster: Cluster, api_key: ApiKey) -> None:
    first, last = SERVED_VERSIONS[api_key]
    wrong: list[str] = []
    for version in range(first, last + 1):
        for path, value in variants(api_key, version):
            if api_key is ApiKey.UNREGISTER_BROKER and value == NODE_ID:
                continue
            for form in forms_of(api_key, cluster.plausible(api_key, version)):
                if not reaches(form, path):
                    continue
                request = changed(form, path, value)
                what = f"{api_key.name} {version}: {'.'.join(map(str, path))} = {value}"
                if api_key is ApiKey.PRODUCE and request["acks"] == 0:
                    continue  # it has no answer
                wrong += tell(cluster, api_key, version, request, what)
    assert not wrong, "\n".join(wrong[:40])


def reaches(request: Any, path: tuple[str | int, ...]) -> bool:
    at = request
    for step in path[:-1]:
        if at is None or (isinstance(step, int) and step >= len(at)):
            return False
        at = at[step]
    return bool(at) if isinstance(path[-1], int) else at is not None


def tell(cluster: Cluster, api_key: ApiKey, version: int, request: Value, what: str) -> list[str]:
    """What is wrong with the answer."""
    try:
        answer = cluster.connection.ask(api_key, version, request)
    except (OSError, TimeoutError) as error:
        cluster.reconnect()
        if api_key in CLOSES and isinstance(error, ConnectionError):
            return []
        return [f"{what}: {error!r}"]
    return [f"{what}: {place} is UNKNOWN_SERVER_ERROR" for place, error in errors_in(answer) if error == -1]


@pytest.mark.parametrize("version", [9, 13])
@pytest.mark.parametrize("fields", [{}, {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}], ids=["plain", "idempotent"])
def test_each_number_of_a_batch_may_be_at_its_bounds(cluster: Cluster, version: int, fields: dict[str, int]) -> None:
    wrong: list[str] = []
    for name, value in batch_variants():
        request = cluster.plausible(ApiKey.PRODUCE, version)
        request["topic_data"][0]["partition_data"][0]["records"] = batch_with(name, value, **fields)
        wrong += tell(cluster, ApiKey.PRODUCE, version, request, f"a batch's {name} = {value}")
    assert not wrong, "\n".join(wrong[:40])


def test_whatever_was_touched_can_be_ended_and_deleted(cluster: Cluster) -> None:
    """After all tests of this file, or some."""
    listed = cluster.ask(ApiKey.LIST_TRANSACTIONS, 0, {"state_filters": [], "producer_id_filters": []})
    for state in listed["transaction_states"]:
        known = cluster.known._replace(number=next(NUMBERS))
        request = plausible(ApiKey.INIT_PRODUCER_ID, 4, known) | {"transactional_id": state["transactional_id"]}
        assert cluster.ask(ApiKey.INIT_PRODUCER_ID, 4, request)["error_code"] == 0, state
    assert cluster.end(isolation=1) == cluster.end(isolation=0), "no transaction is open"
    groups = [group["group_id"] for group in cluster.ask(ApiKey.LIST_GROUPS, 2, {})["groups"]]
    for group in groups:
        empty(cluster, group)
    deleted = cluster.ask(ApiKey.DELETE_GROUPS, 1, {"groups_names": groups})
    # One may have ended by itself meanwhile: its members' sessions are as short as the bounds allow.
    assert {result["error_code"] for result in deleted["results"]} <= {0, ErrorCode.GROUP_ID_NOT_FOUND}
    assert cluster.ask(ApiKey.LIST_GROUPS, 2, {})["groups"] == []
    metadata = cluster.ask(ApiKey.METADATA, 4, {"topics": None, "allow_auto_topic_creation": False})
    names = [topic["name"] for topic in metadata["topics"] if not topic["is_internal"]]
    gone = cluster.ask(ApiKey.DELETE_TOPICS, 3, {"topic_names": names, "timeout_ms": 30_000})
    assert {result["error_code"] for result in gone["responses"]} == {0}


def empty(cluster: Cluster, group: str) -> None:
    """Removes all members of a group."""
    described = cluster.ask(ApiKey.DESCRIBE_GROUPS, 4, {"groups": [group], "include_authorized_operations": False})
    for member in described["groups"][0]["members"]:
        leaving = {"group_id": group, "members": [{"member_id": member["member_id"], "group_instance_id": None}]}
        assert cluster.ask(ApiKey.LEAVE_GROUP, 3, leaving)["error_code"] == 0
    request = {"group_ids": [group], "include_authorized_operations": False}
    for each in cluster.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, request)["groups"]:
        for member in each["members"]:
            leave = plausible(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, cluster.known)
            leave |= {"group_id": group, "member_id": member["member_id"], "member_epoch": -1}
            assert cluster.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, leave)["error_code"] == 0


def test_no_line_tells_of_a_failure(cluster: Cluster) -> None:
    lines = [line for line in cluster.command.logged.splitlines() if FAILURES.search(line)]
    assert not lines, "\n".join(lines[:20])
