"""Relay templates: a request that begins like the last one takes the same way, without its header being parsed."""

import struct
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.wire.api_keys import ApiKey
from libs.wire.headers import read_request_header
from libs.wire.messages import heartbeat, offset_commit
from libs.wire.primitives import Reader
from services.gateway.core.relay_template import PREFIX_BYTES_MAX, RelayTemplate
from tests.gateway.conftest import Rig
from tests.gateway.fake_groups import Groups, answer, request_body, send

KEYS = {ApiKey.OFFSET_COMMIT: range(2, 11), ApiKey.HEARTBEAT: range(5)}


@pytest.fixture
async def groups(rig: Rig) -> AsyncIterator[Groups]:
    request_frame = Groups(rig)
    yield request_frame
    await request_frame.stop()


def read(frame: bytes) -> tuple[int, str, str, int, int]:
    """Version, client id, group id, and the positions of the body and of the byte behind the group id."""
    reader = Reader(memoryview(frame))
    header = read_request_header(reader)
    body_at, flexible = reader.position, header.api_version >= (8 if header.api_key is ApiKey.OFFSET_COMMIT else 4)
    return header.api_version, header.client_id, reader.string(flexible), body_at, reader.position


def framed(key: int, version: int, correlation_id: int, client: bytes, group: str) -> bytes:
    flexible = version >= (8 if key == ApiKey.OFFSET_COMMIT else 4)
    name = group.encode()
    length = bytes([len(name) + 1]) if flexible else struct.pack(">h", len(name))
    return struct.pack(">hhih", key, version, correlation_id, len(client)) + client + b"\0" * flexible + length + name + b"rest"


FRAMES = st.sampled_from(list(KEYS)).flatmap(
    lambda key: st.builds(
        framed,
        st.just(int(key)),
        st.sampled_from(KEYS[key]),
        st.integers(-(1 << 31), (1 << 31) - 1),
        st.sampled_from([b"", b"me", b"you"]),
        st.sampled_from(["", "g", "group", "ü"]),
    )
)


@settings(deadline=None)
@given(FRAMES, FRAMES, st.integers(0, 40), st.integers(0, 255), st.booleans(), st.integers(0, 40))
def test_a_frame_that_matches_is_read_the_same_way_by_the_parser(
    first: bytes, other: bytes, at: int, byte: int, same: bool, cut: int
) -> None:
    version, client_id, group_id, body_at, group_end = read(first)
    template = RelayTemplate(memoryview(first), body_at, group_end, version, client_id, group_id)
    damaged = bytearray(first if same else other)
    damaged[at % len(damaged)] = byte
    for frame in (first, other, bytes(damaged), bytes(damaged[:cut])):
        matched = template.match(memoryview(frame))
        if matched is not None:
            assert read(frame) == (version, client_id, group_id, body_at, group_end)
            assert bytes(matched) == frame[body_at:]
    assert template.match(memoryview(first)) is not None


async def test_heartbeats_and_commits_alternate_and_change_groups(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    await groups.start()
    client, coordinator = await groups.rig.client(1), groups.coordinators[1]
    gateway = groups.rig.gateway
    assert gateway is not None
    alike: list[bool] = []
    match = RelayTemplate.match

    def noted(template: RelayTemplate, frame: memoryview) -> memoryview | None:
        body = match(template, frame)
        alike.append(body is not None)
        return body

    monkeypatch.setattr(RelayTemplate, "match", noted)
    for number, group in enumerate(["g", "g", "g", "other", "other"]):
        commit = offset_commit.OffsetCommitRequest(group, number, "m")
        for key, version, request in (
            (ApiKey.HEARTBEAT, 4, heartbeat.HeartbeatRequest(group, number, "m")),
            (ApiKey.OFFSET_COMMIT, 9, commit),
        ):
            body = request_body(key, version, request)
            send(client, key, version, body, correlation_id=100 + number)
            assert await answer(client, key, version) == body  # the fake coordinator echoes it
            heard = coordinator.heard[-1]
            assert (heard.body, heard.ask.api_key, heard.ask.api_version) == (body, key, version)
            assert (heard.ask.shard, heard.ask.client_id) == (gateway.shards.of(group), "some-client")
    assert alike == [True] * 4 + [False] * 2 + [True] * 2


async def test_long_names_are_relayed_and_not_remembered(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    await groups.start()
    client, coordinator = await groups.rig.client(1), groups.coordinators[1]
    monkeypatch.setattr(RelayTemplate, "match", None)
    for number in range(3):
        body = request_body(ApiKey.HEARTBEAT, 4, heartbeat.HeartbeatRequest("g" * PREFIX_BYTES_MAX, number, "m"))
        send(client, ApiKey.HEARTBEAT, 4, body)
        assert await answer(client, ApiKey.HEARTBEAT, 4) == body
        assert coordinator.heard[-1].body == body


async def test_a_group_id_that_is_none_ends_the_connection(groups: Groups) -> None:
    await groups.start()
    client = await groups.rig.client(1)
    body = request_body(ApiKey.HEARTBEAT, 4, heartbeat.HeartbeatRequest("g", 1, "m"))
    send(client, ApiKey.HEARTBEAT, 4, body)
    await answer(client, ApiKey.HEARTBEAT, 4)
    send(client, ApiKey.HEARTBEAT, 4, b"\0" + body[1:])
    assert await client.ended()
