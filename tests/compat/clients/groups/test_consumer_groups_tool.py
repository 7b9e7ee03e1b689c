"""kafka-consumer-groups in all its modes. Each start of a JVM takes a second, so a test does several things with one group."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.compat.clients.groups.background_writes import write
from tests.compat.clients.groups.client_kinds import Kind
from tests.compat.clients.groups.group_members import GroupMembers
from tests.compat.clients.groups.member import Member, Partition
from tests.compat.clients.groups.offsets import GroupAdmin
from tests.compat.clients.groups.tool_tables import rows
from tests.compat.kafka.tools import ToolResult, run_tool, run_tools
from tests.support.polling import eventually

WAIT_S = 60.0
HOUR_MS = 3_600_000
Shared = tuple[GroupMembers, str, dict[Partition, int]]


def printed_by(done: ToolResult) -> str:
    return done.text + done.stderr.decode()


@pytest.fixture(params=["classic", "consumer"])
def living(request: pytest.FixtureRequest, group_members: GroupMembers, bootstrap: str, admin: GroupAdmin, topic: str) -> Shared:
    """A group of two static members that has committed all ten records of each of three partitions."""
    ends = {(topic, number): 0 for number in range(3)}
    admin.create(topic, 3)
    write(bootstrap, ends, each=10)
    kind = Kind("librdkafka", protocol=request.param)
    first = group_members.join(kind, topic, instance="the-first")
    first.until_owns(set(ends))
    group_members.until_shared([first, group_members.join(kind, topic, instance="the-second")], set(ends))
    group_members.until_committed(ends)
    return group_members, request.param, ends


def test_a_living_group_is_listed_and_described_in_every_way(living: Shared, bootstrap: str, topic: str) -> None:
    group_members, protocol, ends = living
    of_it = ("kafka-consumer-groups", "--bootstrap-server", bootstrap, "--describe", "--group", group_members.group)
    listed = ("kafka-consumer-groups", "--bootstrap-server", bootstrap, "--list")
    asked = {
        "stable ones": (*listed, "--state", "stable"),
        "empty ones": (*listed, "--state", "empty"),
        "types": (*listed, "--type"),
        "offsets": of_it,
        "members": (*of_it, "--members", "--verbose"),
        "state": (*of_it, "--state", "--verbose"),
    }
    answers = {what: done.text for what, done in zip(asked, run_tools(*asked.values()), strict=True)}
    assert {"GROUP": group_members.group, "STATE": "Stable"} in rows(answers["stable ones"])
    assert group_members.group not in answers["empty ones"]
    assert {"GROUP": group_members.group, "TYPE": protocol.capitalize()} in rows(answers["types"])

    offsets = rows(answers["offsets"])
    assert {(row["TOPIC"], int(row["PARTITION"])): int(row["CURRENT-OFFSET"]) for row in offsets} == ends
    assert {(row["LOG-END-OFFSET"], row["LAG"]) for row in offsets} == {("10", "0")}
    assert {row["HOST"] for row in offsets} == {"/127.0.0.1"}

    members = {row["CONSUMER-ID"]: row for row in rows(answers["members"])}
    assert {row["GROUP-INSTANCE-ID"] for row in members.values()} == {"the-first", "the-second"}
    assert sorted(row["#PARTITIONS"] for row in members.values()) == ["1", "2"]
    for consumer, row in members.items():
        numbers = sorted(where["PARTITION"] for where in offsets if where["CONSUMER-ID"] == consumer)
        assert row["CURRENT-ASSIGNMENT"] == f"{topic}:{','.join(numbers)}"
    epoch = "-" if protocol == "classic" else "2"
    assert {(row["CURRENT-EPOCH"], row["TARGET-EPOCH"]) for row in members.values()} == {(epoch, epoch)}

    (state,) = rows(answers["state"])
    assert (state["STATE"], state["#MEMBERS"]) == ("Stable", "2")
    assert state["ASSIGNMENT-STRATEGY"] == ("range" if protocol == "classic" else "uniform")
    assert (state["GROUP-EPOCH"], state["TARGET-ASSIGNMENT-EPOCH"]) == (epoch, epoch)


def test_a_living_groups_offsets_are_neither_reset_nor_deleted_and_it_stays(living: Shared, bootstrap: str, topic: str) -> None:
    group_members, _, ends = living
    on_it = ("kafka-consumer-groups", "--bootstrap-server", bootstrap, "--group", group_members.group)
    reset, deleted, forgotten = run_tools(
        (*on_it, "--reset-offsets", "--topic", topic, "--to-earliest", "--execute"),
        (*on_it, "--delete"),
        (*on_it, "--delete-offsets", "--topic", topic),
    )
    assert "can only be reset if the group" in printed_by(reset)
    assert "GroupNotEmptyException" in printed_by(deleted)
    assert printed_by(forgotten).count("GroupSubscribedToTopicException") == 3
    assert group_members.committed() == ends
    write(bootstrap, ends, each=5)
    group_members.until_committed(ends)  # it goes on as if nothing had been asked


@pytest.fixture
def hourly(bootstrap: str, admin: GroupAdmin, topic: str) -> str:
    """A topic of two partitions of twenty records: ten of three hours ago, ten of now."""
    admin.create(topic, 2)
    producer = Producer({"bootstrap.servers": bootstrap})
    now = int(time.time() * 1000)
    for number in range(20):
        for partition in (0, 1):
            producer.produce(topic, b"v", partition=partition, timestamp=now if number >= 10 else now - 3 * HOUR_MS)
    assert producer.flush(WAIT_S) == 0
    return topic


RESETS: dict[str, tuple[Callable[[], tuple[str, ...]], int]] = {
    "to-earliest": (lambda: ("--to-earliest",), 0),
    "to-latest": (lambda: ("--to-latest",), 20),
    "to-current": (lambda: ("--to-current",), 5),
    "to-offset": (lambda: ("--to-offset", "7"), 7),
    "to-offset past the end": (lambda: ("--to-offset", "70"), 20),
    "shift-by": (lambda: ("--shift-by", "4"), 9),
    "shift-by back before the beginning": (lambda: ("--shift-by", "-9"), 0),
    "to-datetime": (lambda: ("--to-datetime", _ago(HOUR_MS)), 10),
    "by-duration": (lambda: ("--by-duration", "PT1H"), 10),
}


def _ago(ms: int) -> str:
    moment = datetime.fromtimestamp(time.time() - ms / 1000, tz=UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def test_offsets_are_reset_in_every_form_and_not_by_a_dry_run(hourly: str, bootstrap: str, admin: GroupAdmin, group: str) -> None:
    """A group of its own for each form; it has committed 5 of 20 records of two partitions."""
    before = {(hourly, 0): 5, (hourly, 1): 5}
    groups = {form: f"{group}-{number}" for number, form in enumerate(RESETS)}
    for name in groups.values():
        admin.commit(name, before)

    tool = ("kafka-consumer-groups", "--bootstrap-server", bootstrap, "--reset-offsets")

    def run(word: str) -> dict[str, list[dict[str, str]]]:
        runs = [(*tool, word, "--all-topics", "--group", groups[form], *options()) for form, (options, _) in RESETS.items()]
        return {form: rows(done.text) for form, done in zip(RESETS, run_tools(*runs), strict=True)}

    def planned(form: str) -> list[tuple[str, str, str, str]]:
        to = str(RESETS[form][1])
        return [(groups[form], hourly, partition, to) for partition in ("0", "1")]

    for word in ("--dry-run", "--execute"):
        for form, table in run(word).items():
            assert sorted(tuple(row.values()) for row in table) == planned(form), (word, form)
        for form, (_, to) in RESETS.items():
            left = before if word == "--dry-run" else dict.fromkeys(before, to)
            assert admin.committed(groups[form]) == left, (word, form)


def test_a_reset_is_exported_and_executed_from_that_file(
    hourly: str, bootstrap: str, admin: GroupAdmin, group: str, tmp_path: Path
) -> None:
    admin.commit(group, {(hourly, 0): 5, (hourly, 1): 5})
    on_it = ("kafka-consumer-groups", "--bootstrap-server", bootstrap, "--reset-offsets", "--group", group)
    exported = run_tool(*on_it, "--topic", f"{hourly}:1", "--to-offset", "13", "--dry-run", "--export").text
    assert exported.split() == [f'"{hourly}",1,13']
    assert admin.committed(group) == {(hourly, 0): 5, (hourly, 1): 5}
    plan = tmp_path / "plan.csv"
    plan.write_text(exported, encoding="utf-8")
    run_tool(*on_it, "--from-file", str(plan), "--execute")
    assert admin.committed(group) == {(hourly, 0): 5, (hourly, 1): 13}


def test_a_member_reads_on_where_its_group_was_reset_to(
    hourly: str, group_members: GroupMembers, bootstrap: str, admin: GroupAdmin, group: str
) -> None:
    all_of_it = {(hourly, 0): 20, (hourly, 1): 20}
    for protocol in ("classic", "consumer"):
        _read_all(group_members.join(Kind("librdkafka", protocol=protocol), hourly), group_members, all_of_it)
        on_it = ("kafka-consumer-groups", "--bootstrap-server", bootstrap, "--reset-offsets", "--group", group)
        run_tool(*on_it, "--topic", hourly, "--to-offset", "15", "--execute")
        again = group_members.join(Kind("librdkafka", protocol=protocol), hourly)
        _read_all(again, group_members, all_of_it)
        assert set(again.read) == {(partition, offset) for partition in all_of_it for offset in range(15, 20)}


def _read_all(member: Member, group_members: GroupMembers, ends: dict[Partition, int]) -> None:
    member.until_owns(set(ends))
    group_members.until_committed(ends)
    member.leave()


def test_groups_and_offsets_are_deleted(hourly: str, bootstrap: str, admin: GroupAdmin, group: str) -> None:
    tool = ("kafka-consumer-groups", "--bootstrap-server", bootstrap)
    admin.commit(group, {(hourly, 0): 5, (hourly, 1): 6})
    admin.commit(f"{group}-kept", {(hourly, 0): 7})
    done = run_tool(*tool, "--delete-offsets", "--group", group, "--topic", f"{hourly}:0")
    assert rows(done.text) == [{"TOPIC": hourly, "PARTITION": "0", "STATUS": "Successful"}]
    assert admin.committed(group) == {(hourly, 1): 6}
    (described,) = rows(run_tool(*tool, "--describe", "--group", group).text)
    assert (described["PARTITION"], described["CURRENT-OFFSET"], described["LAG"]) == ("1", "6", "14")
    assert described["CONSUMER-ID"] == "-"
    done = run_tool(*tool, "--delete", "--group", group, "--group", "there is no such group")
    assert "GroupIdNotFoundException" in printed_by(done)
    assert f"deleted successfully: '{group}'" in done.text
    listed, described_too = run_tools((*tool, "--list"), (*tool, "--describe", "--group", group))
    assert group not in listed.text.split()
    assert f"{group}-kept" in listed.text.split()
    assert f"Group {group} not found" in printed_by(described_too)
    assert admin.committed(f"{group}-kept") == {(hourly, 0): 7}
    eventually(lambda: not admin.committed(group))


def test_all_groups_are_described_at_once(hourly: str, bootstrap: str, admin: GroupAdmin, group: str) -> None:
    names = [f"{group}-{number}" for number in range(20)]
    for number, name in enumerate(names):
        admin.commit(name, {(hourly, 0): number})
    done = run_tool("kafka-consumer-groups", "--bootstrap-server", bootstrap, "--describe", "--all-groups")
    found = {row["GROUP"]: row for row in rows(done.text)}
    assert [found[name]["CURRENT-OFFSET"] for name in names] == [str(number) for number in range(20)]
