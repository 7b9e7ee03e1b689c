"""With an authorizer every request is checked before anything is done for it, whichever way it begins."""

import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from libs.cluster.acls import AclBinding, AclOperation, PatternType, ResourceType
from libs.rpc.contracts.storage import Fetched, FetchReply
from libs.telemetry.tracing.sampling import TraceRules
from libs.wire.api_keys import ApiKey, is_flexible, response_header_version
from libs.wire.errors import ErrorCode
from libs.wire.messages import leave_group, list_groups, metadata, offset_commit, offset_fetch
from libs.wire.primitives import Reader, Writer
from services.gateway.authorization.table import ROWS
from services.gateway.core.authorizer_settings import authorizer_problem, super_users
from services.gateway.handlers import SERVED
from services.gateway.shortcuts.fetch_shortcut import FetchShortcut
from services.gateway.shortcuts.list_offsets_shortcut import ListOffsetsShortcut
from services.gateway.shortcuts.produce_shortcut import ProduceShortcut
from services.gateway.shortcuts.relay_shortcut import RelayShortcut
from tests.dev.bounds.connection import errors_in as errors_by_place
from tests.dev.bounds.connection import message_of
from tests.dev.bounds.requests import Known, plausible
from tests.dev.bounds.schema_codec import read, write
from tests.gateway.answered_errors import errors_of
from tests.gateway.conftest import TOPIC, TOPIC_ID
from tests.gateway.fake_groups import ask, request_body, send
from tests.gateway.granted_acls import ANONYMOUS, acl, grant, revoke
from tests.gateway.kafka_client import RawClient
from tests.gateway.whole_rig import (
    GROUP,
    RELAYED,
    TRANSACTION,
    Asked,
    Cluster,
    fetch,
    listed,
    produce,
    started_cluster,
    versions,
)
from tests.support.polling import until
from tests.tracing.trees import of_trace, tree

DENIED = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
FREE = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
ONLY_HIDES = {ApiKey.DESCRIBE_CLUSTER, ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS}
"""APIs that every client may use. What the client may not see is left out."""

TOPICS, GROUPS = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
AUTHORIZER = {"authorizer": "StandardAuthorizer"}


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with started_cluster(**AUTHORIZER) as made:
        yield made


def test_each_api_that_is_served_has_a_row() -> None:
    assert {int(key) for key in ROWS} == set(SERVED)


def test_what_a_shortcut_recognises_names_what_is_checked() -> None:
    """A relayed request's shortcut compares the group or the transactional id alone."""
    assert {key for key, row in ROWS.items() if row.repeats} == {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.END_TXN,
    }


async def exchanged(client: RawClient, key: ApiKey, version: int, known: Known) -> Any:
    """The answer to a plausible request."""
    flexible = is_flexible(key, version)
    body = write(message_of(key, "request", version), plausible(key, version, known), flexible=flexible)
    send(client, key, version, body)
    _, reader = await client.answer()
    if response_header_version(key, version) == 1:
        reader.skip_tagged_fields()
    return read(message_of(key, "response", version), reader, flexible=flexible)


async def test_a_stranger_is_refused_everything_and_nothing_is_done_for_it(cluster: Cluster) -> None:
    """Every API in every version, over one connection, which stays open."""
    known = Known(TOPIC_ID, TRANSACTION, 7, 0, GROUP, "m", GROUP, "m", 1)
    client = await cluster.rig.client(1)
    for number in SERVED:
        key = ApiKey(number)
        if key in FREE | ONLY_HIDES:
            continue
        for version in versions(key):
            errors = [code for _, code in errors_by_place(await exchanged(client, key, version, known)) if code]
            invalid = key is ApiKey.METADATA and version in (10, 11)  # it names a topic by id
            allowed = DENIED | {ErrorCode.INVALID_REQUEST} if invalid else DENIED
            assert errors or (key, version) in WITHOUT_ROOM, (key, version)
            assert {ErrorCode(code) for code in errors} <= allowed, (key, version, errors)
    nodes = cluster.rig.nodes.values()
    assert not any(node.appends or node.fetches for node in nodes)
    assert not any(coordinator.heard for coordinator in (*cluster.groups.coordinators.values(), cluster.transactions))


WITHOUT_ROOM = {
    *((ApiKey.DESCRIBE_LOG_DIRS, version) for version in (1, 2)),
    (ApiKey.ELECT_LEADERS, 0),
}
"""Versions whose answer to such a request has no field for an error."""


async def test_a_super_user_may_do_everything() -> None:
    async with started_cluster(**AUTHORIZER, super_users=f"User:admin;{ANONYMOUS}") as cluster:
        client = await cluster.rig.client(1)
        send(client, *produce(9))
        assert await no_error(client, ApiKey.PRODUCE, 9)


async def no_error(client: RawClient, key: ApiKey, version: int) -> bool:
    return not await errors_of(client, key, version)


SHORTCUTS: list[tuple[type, list[AclBinding], list[Asked]]] = [
    (ProduceShortcut, [acl(WRITE, TOPICS, TOPIC)], [produce(version) for version in (9, 13)]),
    (FetchShortcut, [acl(READ, TOPICS, TOPIC)], [fetch(version, 0) for version in (12, 16)]),
    (ListOffsetsShortcut, [acl(DESCRIBE, TOPICS, TOPIC)], [listed(7, -1)]),
    *(
        (RelayShortcut, [acl(READ, GROUPS, GROUP)], [(key, version, request_body(key, version, RELAYED[key](1)))])
        for key, version in (
            (ApiKey.HEARTBEAT, 4),
            (ApiKey.JOIN_GROUP, 9),
            (ApiKey.SYNC_GROUP, 3),
            (ApiKey.LEAVE_GROUP, 5),
        )
    ),
    *(
        (
            RelayShortcut,
            [acl(WRITE, ResourceType.TRANSACTIONAL_ID, TRANSACTION)],
            [(key, 4, request_body(key, 4, RELAYED[key](1)))],
        )
        for key in (ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN)
    ),
]


@pytest.mark.parametrize(("kind", "bindings", "requests"), SHORTCUTS)
async def test_a_permission_that_is_taken_away_ends_its_shortcut(
    kind: type, bindings: list[AclBinding], requests: list[Asked], cluster: Cluster, taken: dict[type, int]
) -> None:
    await grant(cluster.rig, *bindings)
    for key, version, body in requests:
        client = await cluster.rig.client(1)
        before = taken.get(kind, 0)
        for _ in range(3):
            send(client, key, version, body)
            await client.answer()
        assert taken[kind] > before
        await revoke(cluster.rig, *bindings)
        begun, done = taken[kind], asked(cluster)
        send(client, key, version, body)
        errors = await errors_of(client, key, version)
        assert errors
        assert set(errors) <= DENIED
        assert (taken[kind], asked(cluster)) == (begun, done)
        await grant(cluster.rig, *bindings)
        send(client, key, version, body)
        await client.answer()
        assert asked(cluster) > done or taken[kind] > begun


def asked(cluster: Cluster) -> int:
    """How many requests other processes had."""
    coordinators = (*cluster.groups.coordinators.values(), cluster.transactions)
    nodes = cluster.rig.nodes.values()
    return sum(len(each.heard) for each in coordinators) + sum(len(node.appends) + len(node.fetches) for node in nodes)


async def test_a_fetch_that_continues_is_not_served_without_permission(cluster: Cluster, taken: dict[type, int]) -> None:
    """The sequential fetch cache answers the second from the files of the first."""
    permission = acl(READ, TOPICS, TOPIC)
    await grant(cluster.rig, permission)
    client = await cluster.rig.client(1)
    for offset in (0, 4):
        send(client, *fetch(12, offset))
        await client.answer()
    assert len(cluster.rig.nodes[1].fetches) >= 1
    await revoke(cluster.rig, permission)
    send(client, *fetch(12, 8))
    assert await errors_of(client, ApiKey.FETCH, 12) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


async def test_a_fetch_that_waits_is_answered_by_the_decision_at_its_start(cluster: Cluster) -> None:
    permission = acl(READ, TOPICS, TOPIC)
    await grant(cluster.rig, permission)
    node = cluster.rig.nodes[1]
    node.holding_fetches = True
    client = await cluster.rig.client(1)
    send(client, *fetch(12, 0))
    await until(lambda: len(node.parked_fetches) == 1)
    await revoke(cluster.rig, permission)
    node.holding_fetches = False
    (call,) = node.parked_fetches
    call.reply(FetchReply((Fetched(0, 2, 2, 0),)))
    assert await errors_of(client, ApiKey.FETCH, 12) == []
    send(client, *fetch(12, 0))
    assert await errors_of(client, ApiKey.FETCH, 12) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


async def test_who_leaves_a_group_and_hangs_up_is_checked(cluster: Cluster) -> None:
    """A LeaveGroup outlives its client. It waits here for a heartbeat that was sent before it."""
    permission = acl(READ, GROUPS, GROUP)
    await grant(cluster.rig, permission)
    coordinators = cluster.groups.coordinators
    for coordinator in coordinators.values():
        coordinator.holding = True
    client = await cluster.rig.client(1)
    send(client, ApiKey.HEARTBEAT, 4, request_body(ApiKey.HEARTBEAT, 4, RELAYED[ApiKey.HEARTBEAT](1)))
    leave = leave_group.LeaveGroupRequest(GROUP, member_id="m")
    send(client, ApiKey.LEAVE_GROUP, 2, request_body(ApiKey.LEAVE_GROUP, 2, leave))
    await until(lambda: sum(len(each.held) for each in coordinators.values()) == 1)
    await revoke(cluster.rig, permission)
    await client.close()
    gateway = cluster.rig.gateway
    assert gateway is not None
    await until(lambda: len(gateway.connections) == 0)
    assert [heard.ask.api_key for each in coordinators.values() for heard in each.heard] == [ApiKey.HEARTBEAT]


async def test_a_trace_shows_what_the_decision_took() -> None:
    """A request that repeats an allowed one begins by its shortcut, without a decision."""
    async with started_cluster(TraceRules(sample_ratio=1.0), **AUTHORIZER) as cluster:
        await grant(cluster.rig, acl(WRITE, TOPICS, TOPIC))
        client = await cluster.rig.client(1)
        key, version, body = produce(9)
        for number in range(2):
            send(client, key, version, body, correlation_id=number)
            await client.answer()
        spans = list(cluster.rig.spans)
    decided, repeated = [tree(of_trace(spans, span.context.trace_id)) for span in spans if span.parent_id is None]
    assert decided == [f"Produce {TOPIC}", "  parse", "    authorize", "  storage.append", "  answer", "  send"]
    assert repeated == [f"Produce {TOPIC}", "  parse", "  storage.append", "  answer", "  send"]


async def test_denied_topics_are_answered_beside_the_others(cluster: Cluster) -> None:
    await grant(cluster.rig, acl(READ, TOPICS, TOPIC), acl(READ, GROUPS, GROUP))
    client = await cluster.rig.client(1)
    partition = offset_commit.OffsetCommitRequestPartition(0, 5)
    topics = [offset_commit.OffsetCommitRequestTopic(name=name, partitions=[partition]) for name in ("other", TOPIC)]
    committed = offset_commit.OffsetCommitResponsePartition(0)
    stored = offset_commit.OffsetCommitResponse(
        topics=[offset_commit.OffsetCommitResponseTopic(name=TOPIC, partitions=[committed])]
    )
    writer = Writer()
    offset_commit.write_response(writer, stored, 8)
    coordinator = cluster.groups.coordinators[1]
    coordinator.answers[ApiKey.OFFSET_COMMIT] = bytes(writer.buffer)
    request = offset_commit.OffsetCommitRequest(GROUP, 1, "m", topics=topics)
    answer = await ask(client, ApiKey.OFFSET_COMMIT, 8, request)
    assert {topic.name: topic.partitions[0].error_code for topic in answer.topics} == {
        TOPIC: ErrorCode.NONE,
        "other": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    heard = offset_commit.read_request(Reader(memoryview(coordinator.heard[-1].body)), 8)
    assert [topic.name for topic in heard.topics] == [TOPIC]


async def test_offsets_of_topics_that_may_not_be_described_are_hidden(cluster: Cluster) -> None:
    await grant(cluster.rig, acl(DESCRIBE, GROUPS, GROUP), acl(DESCRIBE, TOPICS, TOPIC))
    names = (TOPIC, "other")
    stored = offset_fetch.OffsetFetchResponse(topics=[offset_fetch.OffsetFetchResponseTopic(name) for name in names])
    writer = Writer()
    offset_fetch.write_response(writer, stored, 5)
    cluster.groups.coordinators[1].answers[ApiKey.OFFSET_FETCH] = bytes(writer.buffer)
    client = await cluster.rig.client(1)
    answer = await ask(client, ApiKey.OFFSET_FETCH, 5, offset_fetch.OffsetFetchRequest(group_id=GROUP, topics=None))
    assert [topic.name for topic in answer.topics] == [TOPIC]


@pytest.mark.parametrize("version", range(6))
async def test_only_groups_that_may_be_described_are_listed(version: int, cluster: Cluster) -> None:
    await grant(cluster.rig, acl(DESCRIBE, GROUPS, "shown", pattern_type=PatternType.PREFIXED))
    groups = [list_groups.ListedGroup(f"{name}-{number}", "consumer") for number in range(300) for name in ("shown", "hidden")]
    writer = Writer()
    list_groups.write_response(writer, list_groups.ListGroupsResponse(groups=groups), version)
    cluster.groups.coordinators[1].answers[ApiKey.LIST_GROUPS] = bytes(writer.buffer)
    client = await cluster.rig.client(1)
    answer = await ask(client, ApiKey.LIST_GROUPS, version, list_groups.ListGroupsRequest())
    assert answer.groups
    assert {group.group_id.partition("-")[0] for group in answer.groups} == {"shown"}


def metadata_body(version: int, names: list[str] | None) -> bytes:
    writer = Writer()
    if version >= 9:
        writer.array_length(len(names) if names is not None else -1, True)
    elif names is None and version == 0:
        writer.array_length(0, False)
    else:
        writer.array_length(len(names) if names is not None else -1, False)
    for name in names or ():
        if version >= 10:
            writer.buffer += bytes(16)
        writer.string(name, version >= 9)
        if version >= 9:
            writer.no_tagged_fields()
    if version >= 4:
        writer.boolean(True)
    if 8 <= version <= 10:
        writer.boolean(True)
    if version >= 8:
        writer.boolean(True)
    if version >= 9:
        writer.no_tagged_fields()
    return bytes(writer.buffer)


async def asked_metadata(client: RawClient, version: int, names: list[str] | None) -> metadata.MetadataResponse:
    return await asked_metadata_by(client, version, metadata_body(version, names))


async def asked_metadata_by(client: RawClient, version: int, body: bytes) -> metadata.MetadataResponse:
    send(client, ApiKey.METADATA, version, body)
    _, reader = await client.answer()
    if response_header_version(ApiKey.METADATA, version) == 1:
        reader.skip_tagged_fields()
    return read(message_of(ApiKey.METADATA, "response", version), reader, flexible=version >= 9)


@pytest.mark.parametrize("version", [0, 1, 8, 12])
async def test_metadata_hides_topics_and_refuses_those_that_are_named(version: int, cluster: Cluster) -> None:
    client = await cluster.rig.client(1)
    every: Any = await asked_metadata(client, version, None)
    assert every["topics"] == []
    assert every["brokers"]
    named: Any = await asked_metadata(client, version, [TOPIC, "missing"])
    assert [(topic["name"], topic["error_code"], topic["partitions"]) for topic in named["topics"]] == [
        (TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED, []),
        ("missing", ErrorCode.TOPIC_AUTHORIZATION_FAILED, []),
    ]
    await grant(cluster.rig, acl(DESCRIBE, TOPICS, TOPIC), acl(DESCRIBE, TOPICS, "missing"))
    every = await asked_metadata(client, version, None)
    assert [topic["name"] for topic in every["topics"]] == [TOPIC]
    named = await asked_metadata(client, version, [TOPIC, "missing"])
    errors = {topic["name"]: topic["error_code"] for topic in named["topics"]}
    assert errors == {TOPIC: ErrorCode.NONE, "missing": ErrorCode.TOPIC_AUTHORIZATION_FAILED}, "it may not be created"
    if version >= 8:
        operations = {topic["name"]: topic["topic_authorized_operations"] for topic in named["topics"]}
        assert operations == {TOPIC: 1 << DESCRIBE, "missing": -(1 << 31)}
    if version == 8:
        assert named["cluster_authorized_operations"] == 0


@pytest.mark.parametrize("version", [12, 13])
async def test_metadata_by_id_names_no_topic_that_may_not_be_described(version: int, cluster: Cluster) -> None:
    named = metadata_body(version, [TOPIC]).replace(bytes(16), TOPIC_ID, 1)
    name = bytes([len(TOPIC) + 1]) + TOPIC.encode()
    by_id = named.replace(name, b"\0", 1)  # null
    client = await cluster.rig.client(1)
    for permissions, expected in (([], (None, ErrorCode.TOPIC_AUTHORIZATION_FAILED)), ([DESCRIBE], (TOPIC, ErrorCode.NONE))):
        await grant(cluster.rig, *(acl(permission, TOPICS, TOPIC) for permission in permissions))
        answer: Any = await asked_metadata_by(client, version, by_id)
        assert [(topic["name"], topic["error_code"]) for topic in answer["topics"]] == [expected]


async def test_a_denial_is_logged_once_in_a_while(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "authorizer")
    client = await cluster.rig.client(1)
    for _ in range(20):
        send(client, *produce(9))
        assert await errors_of(client, ApiKey.PRODUCE, 9) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    (line,) = [record for record in caplog.records if record.name == "authorizer"]
    told = line.__dict__["fields"]
    assert told["principal"] == ANONYMOUS
    assert (told["host"], told["api"]) == ("127.0.0.1", "PRODUCE")
    assert (told["operation"], told["resource_type"], told["resource"]) == ("WRITE", "TOPIC", TOPIC)


@pytest.mark.parametrize(
    ("authorizer", "users", "allow", "sentence"),
    [
        ("", "", False, None),
        ("StandardAuthorizer", "User:a; User:b;", True, None),
        ("AclAuthorizer", "", False, "Only StandardAuthorizer is served"),
        ("StandardAuthorizer", "admin", False, "is no principal"),
        ("StandardAuthorizer", "User:a, User:b", False, "is no principal"),
        ("StandardAuthorizer", "User:CN=a,OU=b", False, None),
        ("", "User:admin", False, "PENSTOCK_SUPER_USERS needs PENSTOCK_AUTHORIZER"),
        ("", "", True, "PENSTOCK_ALLOW_EVERYONE_IF_NO_ACL_FOUND needs"),
    ],
)
def test_settings_that_mean_nothing_are_refused(authorizer: str, users: str, allow: bool, sentence: str | None) -> None:
    problem = authorizer_problem(authorizer, users, allow_if_no_acl=allow)
    assert (problem is None) if sentence is None else (problem is not None and sentence in problem)


@pytest.mark.parametrize("text", ["User:bob;User:alice ", ";  User:bob  ;  User:alice "])
def test_super_users_are_read_as_in_kafka(text: str) -> None:
    """StandardAuthorizerTest.testGetConfiguredSuperUsers."""
    assert super_users(text) == {"User:bob", "User:alice"}
    assert super_users(" ") == super_users("") == frozenset()
    assert super_users("User:bob\u00a0") == {"User:bob\u00a0"}, "Java trims no space of Unicode"
    with pytest.raises(ValueError, match="'bob' is no principal"):
        super_users("bob;:alice")
