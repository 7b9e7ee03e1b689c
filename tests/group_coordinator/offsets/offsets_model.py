"""Whatever clients, clocks, logs and owners do: committed offsets never go back, and go only when somebody asks or they are old.

The model is the log, read by a dozen lines. Each commit brings a higher offset than all before it, so that an offset names its
commit. Appends are held, refused, or lost with nobody knowing; owners fail, and the next reads a log that may be compacted; a
former owner that does not know it yet is asked as well. Topics are deleted and made anew, members come and go.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from libs.coordinator.core.decisions import KeyValue
from libs.coordinator.core.shard import Shard
from libs.coordinator.core.states import State as ShardState
from libs.wire.errors import ErrorCode
from libs.wire.messages.delete_groups import DeleteGroupsRequest
from libs.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from libs.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from libs.wire.primitives import NO_UUID
from services.group_coordinator.core.model.records import ClassicGroupChanged, ClassicGroupRemoved, OffsetCommitted, OffsetRemoved
from services.group_coordinator.core.model.requests import RequestEvent
from services.group_coordinator.core.model.topics_view import TopicView
from services.group_coordinator.core.record_formats.record_codec import decode
from tests.group_coordinator.offsets.stage import CHECK_MS, GroupStage, topic_id
from tests.group_coordinator.one_shard import CoordinatorRequest
from tests.group_coordinator.one_shard_model import OneShardModel

RETENTION_MS = 4 * CHECK_MS
LONG_MS = 2 * RETENTION_MS
"""The retention that a commit sets."""
GROUPS = ("s", "m")
"""A simple group, and one that has a member at times."""
READ = "t"
"""By the member."""
Key = tuple[str, str, int]
groups, topics, partitions = st.sampled_from(GROUPS), st.sampled_from("tu"), st.integers(0, 2)


class LoggedStage(GroupStage):
    """Knows when each record got into the log, which `history` has whole."""

    def __init__(self) -> None:
        self.history: list[KeyValue] = []
        self.times: list[int] = []
        super().__init__(retention_ms=RETENTION_MS)

    def store(self, planned: Any) -> None:
        super().store(planned)
        self.history += planned.records
        self.times += [self.now_ms] * len(planned.records)


@dataclass
class Expected:
    """The knowledge of a reader of the log."""

    offsets: dict[Key, OffsetCommitted]
    groups: dict[str, ClassicGroupChanged]


class Fetching(NamedTuple):
    pending: CoordinatorRequest
    group: str
    length: int
    """The end of the log when the request came."""
    topic_ids: frozenset[bytes]
    """That there were then; NO_UUID is any."""


class Committing(NamedTuple):
    pending: CoordinatorRequest
    key: Key
    offset: int


class Deleting(NamedTuple):
    pending: CoordinatorRequest
    group: str
    key: Key | None
    """None: all of the group."""
    before: int
    """Offsets below this were requested before."""


class OffsetsModel(OneShardModel):
    def __init__(self) -> None:
        super().__init__()
        self.stage: LoggedStage = LoggedStage()
        self.former: Shard[RequestEvent, Any, Any, CoordinatorRequest] | None = None
        self.former_length = 0
        self.offsets = count(1)
        self.lives = count(1)
        self.fetching: list[Fetching] = []
        self.committing: list[Committing] = []
        self.deleting: list[Deleting] = []
        self.highest: dict[Key, int] = {}
        """In the log."""
        self.group_views = 0
        """Records of the log that were looked at."""
        self.states: list[dict[Key, OffsetCommitted]] = [{}]
        """After each record."""
        self.now = Expected({}, {})
        self.member: tuple[str, int] | None = None

    # -- clients ------------------------------------------------------------------------------------------------------------

    @rule(
        group=groups,
        topic=topics,
        partition=partitions,
        version=st.sampled_from([2, 8, 10]),
        retention_ms=st.sampled_from([-1, CHECK_MS, LONG_MS]),
    )
    def commit(self, group: str, topic: str, partition: int, version: int, retention_ms: int) -> None:
        offset = next(self.offsets)
        member_id, generation = self.member if group == "m" and self.member else ("", -1)
        pending = self.stage.ask_commit(
            {(topic, partition): offset}, name=group, version=version, member_id=member_id, generation=generation,
            retention_ms=retention_ms if version == 2 else -1,
        )  # fmt: skip
        self.committing.append(Committing(pending, (group, topic, partition), offset))

    @rule(topic=topics)
    def commit_two(self, topic: str) -> None:
        first, second = next(self.offsets), next(self.offsets)
        pending = self.stage.ask_commit({(topic, 0): first, (topic, 1): second}, name="s")
        self.committing += [Committing(pending, ("s", topic, 0), first), Committing(pending, ("s", topic, 1), second)]

    @precondition(lambda self: self.member is not None)
    @rule(topic=topics, generation=st.sampled_from([-1, 0, 1, 99]))
    def a_stranger_commits(self, topic: str, generation: int) -> None:
        """While the member is there, in a generation."""
        stage = self.stage
        if stage.shard.state is not ShardState.SERVING or "m" not in stage.groups or stage.state("m") != "Stable":
            return
        pending = stage.ask_commit({(topic, 0): next(self.offsets)}, name="m", generation=generation)
        if pending.answered and not pending.failure:
            assert pending.reply.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID

    @rule(group=groups)
    def fetch(self, group: str) -> None:
        request = OffsetFetchRequest([OffsetFetchRequestGroup(group, topics=None)])
        length = len(self.stage.history)
        ids = frozenset([NO_UUID, *self.stage.topics.by_id])
        self.fetching.append(Fetching(self.stage.ask(request, 9), group, length, ids))

    @precondition(lambda self: self.former is not None)
    @rule(group=groups)
    def fetch_of_a_former_owner(self, group: str) -> None:
        """It knows no better, and its leader does."""
        assert self.former is not None
        pending = CoordinatorRequest(OffsetFetchRequest([OffsetFetchRequestGroup(group, topics=None)]))
        self.former.submit(RequestEvent(pending.request, 9, "c", "/1", "-"), self.stage.now_ms, pending)
        assert not self.former.take_answers(), "it may be older than the question"
        assert self.former.next_append() is not None
        self.former.refused(16)
        assert [answer.error for answer in self.former.take_answers()] == [16]
        self.former = None

    @rule(group=groups, topic=topics, partition=partitions)
    def delete_offset(self, group: str, topic: str, partition: int) -> None:
        sent = [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(partition)])]
        pending = self.stage.ask(OffsetDeleteRequest(group, sent), 0)
        self.deleting.append(Deleting(pending, group, (group, topic, partition), next(self.offsets)))

    @rule(group=groups)
    def delete_group(self, group: str) -> None:
        pending = self.stage.ask(DeleteGroupsRequest([group]), 2)
        self.deleting.append(Deleting(pending, group, None, next(self.offsets)))

    @precondition(lambda self: self.member is None and not self.stage.holds)
    @rule()
    def join(self) -> None:
        known = self.stage.groups.get("m")
        if known is None or known.is_forgettable or known.state.value == "Empty":
            self.member = self.stage.member(READ, name="m")

    @precondition(lambda self: self.member is not None)
    @rule()
    def leave(self) -> None:
        assert self.member is not None
        self._ask_to_leave(self.member[0])
        self.member = None

    def _ask_to_leave(self, member_id: str) -> None:
        if not self.stage.holds:
            self.stage.leave(member_id, name="m")

    # -- the world ----------------------------------------------------------------------------------------------------------

    @rule(topic=topics)
    def delete_topic_and_make_it_anew(self, topic: str) -> None:
        self.stage.put_topics(TopicView(topic_id(topic, next(self.lives)), topic, 4))

    @rule(ms=st.sampled_from([1, 1000, CHECK_MS, RETENTION_MS]), alive=st.booleans())
    def wait(self, ms: int, alive: bool) -> None:
        if self.stage.holds or not alive or self.member is None:
            self.stage.wait(ms)
        elif ms <= CHECK_MS:
            self.stage.wait_alive(ms, self.member, name="m")

    @rule(stored=st.booleans(), compacted=st.booleans())
    def fail_over(self, stored: bool, compacted: bool) -> None:
        stage = self.stage
        if stage.under_way is not None:
            if stored:
                stage.store(stage.under_way)
            stage.under_way = None
            stage.shard.fenced()
            self.former = None
        else:
            self.former = stage.shard  # it did not hear of it
        stage.answer()
        stage.holds = False
        if compacted:
            stage.log = list({kept.key: kept for kept in stage.log}.values())
        stage.fail_over()

    # -- what holds ---------------------------------------------------------------------------------------------------------

    @invariant()
    def offsets_never_go_back(self) -> None:
        self._read_the_log()
        self._check_fetches()
        self._check_commits()
        self._check_deletions()

    def _read_the_log(self) -> None:
        stage = self.stage
        for at in range(self.group_views, len(stage.history)):
            record, now_ms = decode(*stage.history[at]), stage.times[at]
            offsets = self.states[-1]
            match record:
                case OffsetCommitted(group, topic, partition, offset):
                    key = (group, topic, partition)
                    assert offset > self.highest.get(key, 0), "an offset went back"
                    self.highest[key] = offset
                    offsets = {**offsets, key: record}
                case OffsetRemoved(group, topic, partition):
                    key = (group, topic, partition)
                    assert self._may_go(offsets[key], now_ms), "nobody asked, and it is not old"
                    offsets = {known: kept for known, kept in offsets.items() if known != key}
                case ClassicGroupChanged(group):
                    self.now.groups[group] = record
                case ClassicGroupRemoved(group):
                    del self.now.groups[group]
            self.states.append(offsets)
        self.group_views = len(stage.history)
        self.now.offsets = self.states[-1]

    def _may_go(self, committed: OffsetCommitted, now_ms: int) -> bool:
        key = (committed.group, committed.topic, committed.partition)
        if self._is_gone(committed):
            return True
        if any(sent.group == committed.group and sent.key in (None, key) for sent in self.deleting):
            return True
        known = self.now.groups.get(committed.group)
        if known is not None and known.members and committed.topic == READ:
            return False
        if committed.expire_ms != -1:
            return now_ms >= committed.expire_ms
        since_ms = known.state_changed_ms if known is not None and not known.members else committed.commit_ms
        return now_ms - since_ms >= RETENTION_MS

    def _is_gone(self, committed: OffsetCommitted) -> bool:
        return committed.topic_id != NO_UUID and committed.topic_id not in self.stage.topics.by_id

    def _check_fetches(self) -> None:
        still = []
        for fetching in self.fetching:
            if not fetching.pending.answered:
                still.append(fetching)
            elif not fetching.pending.failure:
                (group,) = fetching.pending.reply.groups
                response = {
                    (topic.name, item.partition_index): item.committed_offset
                    for topic in group.topics
                    for item in topic.partitions
                }
                possible = [
                    {
                        key[1:]: kept.offset
                        for key, kept in state.items()
                        if key[0] == fetching.group and kept.topic_id in fetching.topic_ids
                    }
                    for state in self.states[fetching.length :]
                ]
                assert response in possible, "it is older than the question, or was never true"
        self.fetching = still

    def _check_commits(self) -> None:
        still = []
        for committing in self.committing:
            if not committing.pending.answered:
                still.append(committing)
            elif not committing.pending.failure:
                partition = committing.key[2]
                errors = {
                    item.error_code
                    for matches in committing.pending.reply.topics
                    for item in matches.partitions
                    if item.partition_index == partition
                }
                assert errors <= {0, 22, 25, 27, 69}
                if errors & {22, 25, 69}:
                    self.member = None  # it was silent, and the answer says so
                in_the_log = self.highest.get(committing.key, 0) >= committing.offset
                assert in_the_log or errors != {0}, "told before it was in the log"
        self.committing = still

    def _check_deletions(self) -> None:
        still = []
        for deleting in self.deleting:
            reply = deleting.pending.reply
            if not deleting.pending.answered:
                still.append(deleting)
            elif deleting.pending.failure:
                continue
            elif deleting.key is None:
                (result,) = reply.results
                if result.error_code == 0:
                    assert not any(
                        kept.offset < deleting.before for key, kept in self.now.offsets.items() if key[0] == deleting.group
                    )
            elif reply.error_code == 0 and reply.topics[0].partitions[0].error_code == 0:
                kept = self.now.offsets.get(deleting.key)
                assert kept is None or kept.offset > deleting.before
        self.deleting = still

    @invariant()
    def the_tables_are_what_the_log_says(self) -> None:
        stage = self.stage
        if stage.shard.state is not ShardState.SERVING or stage.under_way is not None or stage.shard.pending.groups:
            return
        table = stage.machine.offsets.table
        matches = {(group, item.topic, item.partition): item for group in table for item in table.of(group)}
        assert matches == self.states[-1]
        assert set(table) == {group for group, _, _ in matches}, "a group without offsets is not here"
        listed = set(stage.machine.simple_groups())
        assert listed == {group for group, _, _ in matches if group not in stage.groups}

    def teardown(self) -> None:
        self.stage.holds = False
        self.stage.settle()
        if self.member is not None:
            self._ask_to_leave(self.member[0])
        self.stage.wait(60_000)
        self.stage.wait(LONG_MS + 2 * CHECK_MS)
        self.offsets_never_go_back()
        self.the_tables_are_what_the_log_says()
        assert not self.fetching + self.committing + self.deleting, "somebody waits for ever"
        assert self.stage.listed() == {}, "something never gets old"


def random_run(seed: int, steps: int = 120) -> None:
    """The same rules in the proportions of a life."""
    draw = random.Random(seed)
    run = OffsetsModel()

    def when(true: bool, what: Callable[[], None]) -> None:
        if true:
            what()

    def group() -> str:
        return draw.choice(GROUPS)

    def topic() -> str:
        return draw.choice("tu")

    moves: list[tuple[float, Callable[[], None]]] = [
        (
            20,
            lambda: run.commit(
                group(), topic(), draw.randrange(3), draw.choice([2, 8, 10]), draw.choice([-1, CHECK_MS, LONG_MS])
            ),
        ),
        (5, lambda: run.commit_two(topic())),
        (2, lambda: when(run.member is not None, lambda: run.a_stranger_commits(topic(), draw.choice([-1, 0, 1, 99])))),
        (15, lambda: run.fetch(group())),
        (3, lambda: when(run.former is not None, lambda: run.fetch_of_a_former_owner(group()))),
        (3, lambda: run.delete_offset(group(), topic(), draw.randrange(3))),
        (1, lambda: run.delete_group(group())),
        (3, lambda: when(run.member is None and not run.stage.holds, run.join)),
        (1, lambda: when(run.member is not None, run.leave)),
        (1, lambda: run.delete_topic_and_make_it_anew(topic())),
        (5, lambda: run.wait(draw.choice([1, 1000, CHECK_MS]), draw.random() < 0.9)),
        (1, lambda: run.wait(draw.choice([CHECK_MS, RETENTION_MS]), draw.random() < 0.5)),
        (4, run.hold),
        (1, lambda: when(run.stage.holds, run.release)),
        (2, lambda: when(run.has_held, lambda: run.refuse(draw.choice([19, 10])))),
        (2, lambda: when(run.has_held, lambda: run.lose_sight(draw.random() < 0.5))),
        (2, lambda: run.fail_over(draw.random() < 0.5, draw.random() < 0.5)),
    ]
    for move in draw.choices([made for _, made in moves], [weight for weight, _ in moves], k=steps):
        move()
        run.offsets_never_go_back()
        run.the_tables_are_what_the_log_says()
    run.teardown()
