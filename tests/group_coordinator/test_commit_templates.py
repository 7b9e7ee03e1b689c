"""A commit that is like its member's last is read, and answered, as if it were parsed and written like every other."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS, GROUP_ELEMENTS_MAX
from libs.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    write_request,
)
from libs.wire.primitives import ProtocolError, Writer
from services.group_coordinator.protocol import commit_templates
from services.group_coordinator.protocol.commit_templates import BODY_BYTES_MAX, MARK, MISSES_MAX, CommitTemplates

API = APIS[ApiKey.OFFSET_COMMIT]
VERSIONS = range(API.min_version, API.max_version + 1)
NAMES = st.sampled_from(["", "g", "a group", "m" * 126, "m" * 127, "ü" * 63, "ü" * 64, "x" * 300])
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1) | st.just(commit_templates.MARKED_OFFSET)
PARTITIONS = st.builds(
    OffsetCommitRequestPartition,
    st.integers(0, 2) | st.just(int.from_bytes(MARK[:4], "big")),
    INT64,
    INT32 | st.just(commit_templates.MARKED_EPOCH),
    st.none() | st.sampled_from(["", "said"]),
)
TOPICS = st.builds(
    OffsetCommitRequestTopic,
    st.sampled_from([bytes(16), bytes(range(16)), MARK + bytes(4), bytes(4) + MARK]),
    st.sampled_from(["t", "lines"]),
    st.lists(PARTITIONS, max_size=3),
)
REQUESTS = st.builds(
    OffsetCommitRequest,
    NAMES,
    INT32,
    NAMES,
    st.none() | NAMES,
    st.just(-1),
    st.lists(TOPICS, max_size=2),
)
RESPONSES = st.builds(
    OffsetCommitResponse,
    st.just(0),
    st.lists(
        st.builds(
            OffsetCommitResponseTopic,
            st.just(bytes(16)),
            st.just("t"),
            st.lists(st.builds(OffsetCommitResponsePartition, st.integers(0, 1), st.sampled_from([0, 25])), max_size=2),
        ),
        max_size=2,
    ),
)


def body_of(request: OffsetCommitRequest, version: int) -> bytes:
    writer = Writer()
    write_request(writer, request, version)
    return bytes(writer.buffer)


def commit(offset: int, *, member: str = "m", metadata: str | None = None, epoch: int = 3) -> OffsetCommitRequest:
    partitions = [OffsetCommitRequestPartition(0, offset, epoch, metadata), OffsetCommitRequestPartition(2, offset + 1, epoch)]
    return OffsetCommitRequest("g", 4, member, topics=[OffsetCommitRequestTopic(name="lines", partitions=partitions)])


def bodies(requests: list[OffsetCommitRequest], version: int, random: Random) -> list[bytes]:
    """Commits of a few members, the same with other offsets, and damaged."""
    made: list[bytes] = []
    for _ in range(20):
        request = random.choice(requests)
        for topic in request.topics:
            for item in topic.partitions:
                item.committed_offset, item.committed_leader_epoch = random.getrandbits(62), random.getrandbits(30)
        body = bytearray(body_of(request, version))
        if random.random() < 0.4:
            body[random.randrange(len(body))] = random.randrange(256)
        made.append(bytes(body if random.random() < 0.9 else body[: random.randrange(len(body))]))
    return made


@settings(deadline=None)
@given(
    st.lists(REQUESTS, min_size=1, max_size=3),
    st.sampled_from(VERSIONS),
    st.lists(RESPONSES, min_size=1, max_size=3),
    st.integers(0, 1 << 30),
)
def test_whatever_comes_is_read_and_answered_as_by_the_codec(
    requests: list[OffsetCommitRequest], version: int, responses: list[OffsetCommitResponse], seed: int
) -> None:
    templates, random = CommitTemplates(enabled=True), Random(seed)
    for body in [*[body_of(request, version) for request in requests], *bodies(requests, version, random)]:
        try:
            expected = API.read(memoryview(body), version)
        except ProtocolError:
            with pytest.raises(ProtocolError):
                templates.read(body, version)
            continue
        request, write = templates.read(body, version)
        assert request == expected
        response = random.choice(responses)
        assert write(response) == API.written(response, version)


def test_the_mark_is_nothing_that_a_request_may_not_say() -> None:
    assert not any(MARK.startswith(MARK[at:]) for at in range(1, len(MARK)))
    templates = CommitTemplates(enabled=True)
    for offset in (1, 2, 3):
        request = commit(offset, member="m")
        request.topics[0].name = MARK.decode()
        assert templates.read(body_of(request, 9), 9)[0] == request


def test_none_is_kept_where_they_are_switched_off() -> None:
    templates = CommitTemplates(enabled=False)
    for offset in (1, 2, 3):
        assert templates.read(body_of(commit(offset), 9), 9)[0] == commit(offset)
    assert len(templates) == 0


def test_a_commit_like_the_last_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    templates = CommitTemplates(enabled=True)
    templates.read(body_of(commit(1), 9), 9)
    monkeypatch.setattr(commit_templates, "_COMMIT", None)
    assert templates.read(body_of(commit(77, epoch=9), 9), 9)[0] == commit(77, epoch=9)


def test_the_next_request_does_not_change_earlier_ones() -> None:
    templates = CommitTemplates(enabled=True)
    requests = [templates.read(body_of(commit(offset), 9), 9)[0] for offset in (1, 2, 3)]
    assert requests == [commit(1), commit(2), commit(3)]


def test_each_member_has_its_own() -> None:
    templates = CommitTemplates(enabled=True)
    for round_ in range(3):
        for member in ("m", "n"):
            templates.read(body_of(commit(round_, member=member), 9), 9)
    assert len(templates) == 2
    assert all(not template.misses for template in templates._templates.values())


def test_a_member_that_commits_something_else_from_now_on_is_learnt_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    templates = CommitTemplates(enabled=True)
    templates.read(body_of(commit(1), 9), 9)
    for _ in range(MISSES_MAX):
        templates.read(body_of(commit(1, metadata="said"), 9), 9)
    monkeypatch.setattr(commit_templates, "_COMMIT", None)
    assert templates.read(body_of(commit(2, metadata="said"), 9), 9)[0] == commit(2, metadata="said")


def test_large_requests_and_countless_members_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    templates = CommitTemplates(enabled=True)
    templates.read(body_of(commit(1, metadata="x" * BODY_BYTES_MAX), 9), 9)
    assert len(templates) == 0
    monkeypatch.setattr(commit_templates, "TEMPLATES_MAX", 3)
    for member in range(50):
        templates.read(body_of(commit(1, member=f"m{member}"), 9), 9)
        assert 1 <= len(templates) <= 3


def test_a_request_of_countless_elements_is_refused_as_by_the_codec() -> None:
    body = body_of(OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic(name="")] * (GROUP_ELEMENTS_MAX + 1)), 9)
    with pytest.raises(ProtocolError):
        CommitTemplates(enabled=True).read(body, 9)
