"""Every cause of a rebalance, with real clients of both protocols: `/debug/groups/NAME` and the coordinator's log name it."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from confluent_kafka.admin import ResourceType

from tests.compat.clients.groups.brokers import Brokers
from tests.compat.clients.groups.offsets import GroupAdmin
from tests.compat.clients.groups.steered_members import SteeredMembers
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually

CONSUMER_SESSION_MS = 4_000
"""The coordinator's setting (brokers.py), of groups that have none of their own. Classic members ask for their own."""
CALM_MS = 60_000
CALM_HEARTBEAT_MS = 3_000
"""librdkafka's consumer of KIP-848 waits no longer for an answer: on a machine that is slower than that, it joins twice."""
IMPATIENT_MS = 3_000
CLIENTS = [(client, protocol) for client in ("java", "librdkafka") for protocol in ("classic", "consumer")]
LOGGED = re.compile(r'event="group rebalances" group=(\S+) .*?reason="([^"]*)"')
UNSAID = (
    r"member {member} left: it closed, unsubscribed or exceeded max\.poll\.interval\.ms \({poll}\), its client does not say which"
)
SILENT = r"member {member} was silent for {session} ms"


@dataclass(frozen=True)
class Scene:
    """One member, alone in its group, which reads `topic`."""

    group: str
    protocol: str
    members: SteeredMembers
    topic: str
    other: str
    admin: GroupAdmin
    cluster: LocalCluster

    def view(self) -> dict[str, Any]:
        """`/debug/groups/NAME`, or {} before the group is there."""
        seen: dict[str, Any] = json.loads(self.cluster.admin("group_coordinator-1", "/debug/groups"))
        if self.group not in seen["groups"]:
            return {}
        return dict(json.loads(self.cluster.admin("group_coordinator-1", f"/debug/groups/{self.group}")))

    def last_reason(self) -> str:
        return str(self.view()["rebalances"]["last_reason"])

    def logged(self) -> list[str]:
        """The reasons of the group's rebalances, as the coordinator's log has them."""
        found = LOGGED.findall(self.cluster.log("group_coordinator-1"))
        return [reason for group, reason in found if group == self.group]

    def is_settled(self) -> bool:
        view = self.view()
        return bool(view) and view["state"] == "Stable" and [bool(each["assigned"]) for each in view["members"]] == [True]


def stop_and_go_on(scene: Scene) -> None:
    scene.members.stop()
    try:
        eventually(lambda: "was silent" in scene.last_reason())
    finally:
        scene.members.go_on()


@dataclass(frozen=True)
class Cause:
    """`words`: the reasons that follow the member's first joining, regular expressions. `java`: those of Java's classic consumer,
    which says more than others. `librdkafka`: those of its consumer of KIP-848."""

    act: Callable[[Scene], None]
    words: tuple[str, ...]
    java: tuple[str, ...] = ()
    librdkafka: tuple[str, ...] = ()
    session_ms: int = CALM_MS
    max_poll_interval_ms: int = CALM_MS
    """librdkafka allows none below the session timeout."""
    crashes: bool = False

    def words_of(self, client: str, protocol: str) -> tuple[str, ...]:
        special = {("java", "classic"): self.java, ("librdkafka", "consumer"): self.librdkafka}
        return special.get((client, protocol)) or self.words


CAUSES = {
    "join": Cause(lambda scene: None, ()),
    "leave": Cause(
        lambda scene: scene.members.close(scene.group), (UNSAID,), (r"member {member} left: the consumer is being closed",)
    ),
    "crash": Cause(lambda scene: scene.members.kill(), (SILENT,), session_ms=IMPATIENT_MS, crashes=True),
    "unsubscribe": Cause(
        lambda scene: scene.members.unsubscribe(scene.group),
        (UNSAID,),
        (r"member {member} left: the consumer unsubscribed from all topics",),
    ),
    "subscription changed": Cause(
        lambda scene: scene.members.subscribe(scene.group, scene.topic, scene.other),
        (r"member {member} changed its subscription: added {other}",),
        # its heartbeat thread may learn of the new topic before poll compares subscriptions, and it compares metadata first
        (r"member {member} changed its subscription: added {other}: (subscription|cached metadata) has changed",),
    ),
    "partitions added": Cause(
        lambda scene: scene.admin.grow(scene.topic, 4),
        (r"(leader {member} joined again: )?topic {topic} gained partitions: 2, now 4",),
        (r"leader {member} joined again: topic {topic} gained partitions: 2, now 4: cached metadata has changed",),
    ),
    "max.poll.interval.ms exceeded": Cause(
        lambda scene: scene.members.hang(scene.group),
        (UNSAID,),
        (r"member {member} left: consumer poll timeout has expired\.",),
        (SILENT,),  # it does not leave before the application has polled and heard of it, and sends no more heartbeats
        session_ms=IMPATIENT_MS,
        max_poll_interval_ms=IMPATIENT_MS,
    ),
    "stopped and continued": Cause(
        stop_and_go_on,
        (SILENT, r"member \S+ joined"),
        (SILENT, r"member \S+ joined: encountered UNKNOWN_MEMBER_ID from HEARTBEAT response"),
        session_ms=IMPATIENT_MS,
    ),
}


@pytest.fixture(scope="module")
def start(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], SteeredMembers]]:
    """Starts a process of members of that client."""
    with ExitStack() as stack:
        yield lambda client: stack.enter_context(SteeredMembers(client, bootstrap, tmp_path_factory.mktemp("steered") / "log"))


@pytest.fixture(scope="module")
def shared(start: Callable[[str], SteeredMembers]) -> Callable[[str], SteeredMembers]:
    """The members of that client which do not crash: one process for all tests."""
    return cache(start)


@pytest.fixture(scope="module")
def other(admin: GroupAdmin) -> str:
    admin.create("causes-other", 2)
    return "causes-other"


@pytest.mark.parametrize(("client", "protocol"), CLIENTS)
@pytest.mark.parametrize("cause", CAUSES)
def test_a_rebalance_names_its_cause_in_words(
    cause: str,
    client: str,
    protocol: str,
    brokers: Brokers,
    admin: GroupAdmin,
    start: Callable[[str], SteeredMembers],
    shared: Callable[[str], SteeredMembers],
    other: str,
) -> None:
    if brokers.cluster is None:
        pytest.skip("Kafka has no such view")
    chosen = CAUSES[cause]
    topic = f"{client}-{protocol}-{list(CAUSES).index(cause)}"  # short, for the log cuts long reasons off
    admin.create(topic, 2)
    members = start(client) if chosen.crashes else shared(client)
    scene = Scene(f"{topic}-group", protocol, members, topic, other, admin, brokers.cluster)
    poll_ms = chosen.max_poll_interval_ms
    session_ms = chosen.session_ms if protocol == "classic" or chosen.session_ms == CALM_MS else CONSUMER_SESSION_MS
    if protocol == "consumer" and session_ms == CALM_MS:
        admin.set_config(ResourceType.GROUP, scene.group, "consumer.session.timeout.ms", str(CALM_MS))
        admin.set_config(ResourceType.GROUP, scene.group, "consumer.heartbeat.interval.ms", str(CALM_HEARTBEAT_MS))
    members.open(scene.group, topic, protocol=protocol, session_ms=session_ms, max_poll_interval_ms=poll_ms)
    eventually(scene.is_settled)
    (member,) = [str(each["member_id"]) for each in scene.view()["members"]]
    chosen.act(scene)
    named = {"member": member, "topic": topic, "other": other, "session": session_ms, "poll": poll_ms}
    expected = [
        words.format_map({name: re.escape(str(value)) for name, value in named.items()})
        for words in (r"member {member} joined", *chosen.words_of(client, protocol))
    ]
    try:
        eventually(lambda: re.fullmatch(expected[-1], scene.last_reason()))
        eventually(lambda: len(scene.logged()) >= len(expected))
    except AssertionError as error:
        raise AssertionError(f"{error}\n{scene.view()['rebalances']}\n{scene.logged()}") from None
    told = scene.logged()
    assert len(told) == len(expected), told
    assert all(re.fullmatch(*pair) for pair in zip(expected, told, strict=True)), told
    if not chosen.crashes:
        members.close(scene.group)
