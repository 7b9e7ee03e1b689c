"""Followers that stop for a moment now and then: the leader's view, a metric, a line and the health of the cluster name them."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from libs.cluster import keys
from libs.cluster.codec import decode
from libs.cluster.health import health_of
from libs.cluster.records import STORAGE, Member
from services.storage.replication.leader import slow_followers
from services.storage.replication.leader.slow_followers import AGAIN, APART_S, HELD_UP_S, WITHIN_S, SlowFollowers
from tests.storage.cluster import batch
from tests.storage.three_nodes import Nodes, nodes
from tests.support.polling import until

FOLLOWER = 3


class Clock:
    """The parts of an event loop that are asked for."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[tuple[float, Any]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, act: Any) -> SimpleNamespace:
        timer = (when, act)
        self.timers.append(timer)
        return SimpleNamespace(cancel=lambda: self.timers.remove(timer) if timer in self.timers else None)

    def call_later(self, delay_s: float, act: Any) -> SimpleNamespace:
        return self.call_at(self.now + delay_s, act)

    def advance(self, seconds: float) -> None:
        self.now += seconds
        for timer in [timer for timer in self.timers if timer[0] <= self.now]:
            self.timers.remove(timer)
            timer[1]()


class Watched:
    """`SlowFollowers` of node 1."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = Clock()
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: self.clock)
        self.meters: Any = SimpleNamespace(held_up_by={})
        self.told: list[tuple[int, ...]] = []
        self.slow = SlowFollowers(self.meters, self.told.append)

    def committed(self, waited_s: float = HELD_UP_S, raised_by: int = FOLLOWER) -> None:
        partition: Any = SimpleNamespace(node_id=1, replica=SimpleNamespace(raised_by=raised_by))
        self.slow.committed(partition, waited_s)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


@pytest.fixture
async def three(tmp_path: Path, short_dir: Path) -> AsyncIterator[Nodes]:
    async with nodes(tmp_path, short_dir) as running:
        yield running


def test_only_a_follower_that_held_up_for_long_counts(watched: Watched) -> None:
    watched.committed(waited_s=HELD_UP_S / 2)
    watched.committed(raised_by=1)
    watched.committed(raised_by=-1)
    assert watched.meters.held_up_by == {}
    watched.committed()
    assert watched.meters.held_up_by == {FOLLOWER: 1}


def test_partitions_that_waited_together_count_once(watched: Watched) -> None:
    for _ in range(100):
        watched.committed()
        watched.clock.advance(APART_S / 200)
    assert watched.meters.held_up_by == {FOLLOWER: 1}


def test_a_follower_that_holds_up_again_and_again_is_told_of_until_it_has_been_quick_for_long(watched: Watched) -> None:
    for _ in range(AGAIN - 1):
        watched.committed()
        watched.clock.advance(APART_S)
    assert watched.told == []
    watched.committed()
    watched.clock.advance(APART_S)
    watched.committed()
    assert watched.told == [(FOLLOWER,)]
    watched.clock.advance(WITHIN_S)
    assert watched.told == [(FOLLOWER,), ()]
    assert watched.clock.timers == []


def test_a_follower_that_holds_up_seldom_is_not_told_of(watched: Watched) -> None:
    for _ in range(3 * AGAIN):
        watched.committed()
        watched.clock.advance(WITHIN_S / (AGAIN - 1))
    assert watched.told == []


async def test_the_leaders_view_tells_where_each_follower_stands_and_when_it_was_heard(three: Nodes) -> None:
    topic = await three.topic("viewed", leader=1)
    await three[1].append(topic, batch(b"a"))
    await three.alike(topic)

    async def view(node_id: int) -> Any:
        node = three[node_id].node
        assert node is not None
        return await node.partitions.look_up("viewed-0")

    followers = (await view(1))["followers"]
    assert followers.keys() == {"2", "3"}
    for follower in followers.values():
        heard_ago_s = follower.pop("heard_ago_s")
        assert follower.pop("caught_up_ago_s") >= 0.0
        assert 0.0 <= heard_ago_s < 60.0
        assert follower == {"in_sync": True, "reported": True, "fetch": 1, "durable": 1, "lacks": 0, "lacks_durable": 0}
    json.dumps(followers)
    assert (await view(2))["followers"] == {}


async def test_a_follower_whose_syncs_take_long_is_named_by_line_metric_and_health(
    three: Nodes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(slow_followers, "HELD_UP_S", 0.0)
    monkeypatch.setattr(slow_followers, "APART_S", 0.0)
    topic = await three.topic("held", leader=1)
    await three[1].append(topic, batch(b"first"))
    await three.alike(topic)
    leader = three[1].node
    assert leader is not None
    followed, led = three.home(FOLLOWER, topic).sync, three.home(1, topic)
    started = followed.start_round
    with caplog.at_level(logging.WARNING):
        while leader.meters.held_up_by.get(FOLLOWER, 0) < AGAIN:
            monkeypatch.setattr(followed, "start_round", lambda: None)  # its disk is away for a moment
            pending = three[1].send([(topic, 0, batch(b"x"))])
            await until(lambda: led.replica.followers_shown(0.0)["2"]["durable"] == led.log.durable_offset == led.log_end_offset)
            monkeypatch.setattr(followed, "start_round", started)
            followed.mark_urgent()
            followed.start_round()
            await pending
    assert "a follower holds up acks=all" in caplog.text

    async def is_told() -> bool:
        record = await three.store.get(keys.member(STORAGE, 1))
        return record is not None and FOLLOWER in decode(Member, record.value).slow_followers

    await until(is_told)
    await until(lambda: health_of(leader.partitions.image).faults.slow_followers.get(FOLLOWER) == (1,))
    health = health_of(leader.partitions.image)
    assert "storage-3 holds up acks=all of storage-1 again and again" in health.sentence
    shown: Any = health.as_json()
    assert shown["slow_followers"]["3"] == [1]
