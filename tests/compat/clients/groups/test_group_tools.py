"""Kafka's other tools where they have to do with groups."""

import re

import pytest

from tests.compat.clients.groups.background_writes import write
from tests.compat.clients.groups.client_kinds import Kind
from tests.compat.clients.groups.group_members import GroupMembers
from tests.compat.clients.groups.offsets import GroupAdmin
from tests.compat.clients.groups.tool_tables import rows
from tests.compat.kafka.tools import run_tool, run_tools
from tests.support.polling import eventually

PROTOCOLS = ["classic", "consumer"]


def test_groups_are_listed_by_type_and_protocol(
    group_members: GroupMembers, bootstrap: str, admin: GroupAdmin, topic: str, group: str
) -> None:
    admin.create(topic)
    names = {"Classic": f"{group}-old", "Consumer": f"{group}-new", "simple": f"{group}-simple"}
    admin.commit(names["simple"], {(topic, 0): 0})
    for protocol in PROTOCOLS:
        other = GroupMembers(bootstrap, admin, names[protocol.capitalize()], group_members.directory / protocol)
        with other:
            other.join(Kind("librdkafka", protocol=protocol), topic).until_owns({(topic, 0)})
            if protocol == "classic":
                continue
            asked = [(), ("--consumer",), ("--group-type", "classic"), ("--group-type", "consumer"), ("--protocol", "consumer")]
            tool = ("kafka-groups", "--bootstrap-server", bootstrap, "--list")
            listed = [rows(done.text) for done in run_tools(*((*tool, *options) for options in asked))]
    old = {"GROUP": names["Classic"], "TYPE": "Classic", "PROTOCOL": "consumer"}
    new = {"GROUP": names["Consumer"], "TYPE": "Consumer", "PROTOCOL": "consumer"}
    ours = [[row for row in found if row["GROUP"].startswith(group)] for found in listed]
    for rows_of_all in ours[:2]:
        assert all(row in rows_of_all for row in (old, new))
    assert ours[2] == [old]
    assert ours[3] == [new]
    assert sorted(row["GROUP"] for row in ours[4]) == sorted([old["GROUP"], new["GROUP"]])


def test_a_groups_configs_are_set_described_obeyed_and_taken_away(
    group_members: GroupMembers, bootstrap: str, admin: GroupAdmin, topic: str, group: str
) -> None:
    """A dead member of the group with the longer session is still there when that of the other group is gone."""
    admin.create(topic)
    on_it = ("kafka-configs", "--bootstrap-server", bootstrap, "--entity-type", "groups", "--entity-name", group)
    run_tool(*on_it, "--alter", "--add-config", "consumer.session.timeout.ms=50000,consumer.heartbeat.interval.ms=200")
    described, everything = run_tools((*on_it, "--describe"), (*on_it, "--describe", "--all"))
    set_ones = set(re.findall(r"(\S+)=(\d+) sensitive=false synonyms=\{DYNAMIC_GROUP_CONFIG", described.text))
    assert set_ones == {("consumer.session.timeout.ms", "50000"), ("consumer.heartbeat.interval.ms", "200")}
    assert "consumer.session.timeout.ms=50000" in everything.text
    new = Kind("librdkafka", protocol="consumer")
    with GroupMembers(bootstrap, admin, f"{group}-by-default", group_members.directory / "by-default") as other:
        patient, hasty = group_members.join(new, topic), other.join(new, topic)
        for member in (patient, hasty):
            member.until_owns({(topic, 0)})
        for member in (patient, hasty):
            member.kill()
        eventually(lambda: _member_count(admin, other.group) == 0, within_s=30)
        assert _member_count(admin, group) == 1
    run_tool(*on_it, "--alter", "--delete-config", "consumer.session.timeout.ms")
    left, all_of_them = run_tools((*on_it, "--describe"), (*on_it, "--describe", "--all"))
    assert "consumer.session.timeout.ms" not in left.text
    assert "DYNAMIC_GROUP_CONFIG:consumer.heartbeat.interval.ms=200" in all_of_them.text


@pytest.mark.parametrize(
    "config",
    ["consumer.session.timeout.ms=1", "consumer.heartbeat.interval.ms=99999999", "consumer.colour=blue"],
)
def test_group_configs_out_of_range_or_unknown_are_refused(bootstrap: str, group: str, config: str) -> None:
    on_it = ("kafka-configs", "--bootstrap-server", bootstrap, "--entity-type", "groups", "--entity-name", group)
    refused = run_tool(*on_it, "--alter", "--add-config", config, check=False)
    assert refused.returncode != 0
    assert b"InvalidConfigurationException" in refused.stderr + refused.stdout
    assert config.split("=")[0] not in run_tool(*on_it, "--describe").text


def _member_count(admin: GroupAdmin, group: str) -> int:
    return len(admin.client.describe_consumer_groups([group])[group].result().members)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_console_consumer_goes_on_where_its_group_stopped(
    bootstrap: str, admin: GroupAdmin, topic: str, group: str, protocol: str
) -> None:
    admin.create(topic, 3)
    ends = {(topic, number): 0 for number in range(3)}
    seen: list[str] = []
    for each in (10, 5):
        write(bootstrap, ends, each)
        reading = ("--topic", topic, "--group", group, "--from-beginning", "--max-messages", str(3 * each))
        speaking = ("--command-property", f"group.protocol={protocol}", "--formatter-property", "print.partition=true")
        seen += run_tool("kafka-console-consumer", "--bootstrap-server", bootstrap, *reading, *speaking).text.splitlines()
        assert admin.committed(group) == ends
    assert sorted(seen) == sorted(f"Partition:{number}\t{offset}" for _, number in ends for offset in range(15))


def test_the_console_consumer_reads_all_topics_of_a_pattern(bootstrap: str, admin: GroupAdmin, topic: str, group: str) -> None:
    prefix = f"p{topic[-40:]}"
    ends = {(f"{prefix}.{number}", 0): 0 for number in range(3)}
    for name, _ in ends:
        admin.create(name)
    write(bootstrap, ends, each=4)
    reading = ("--include", rf"{prefix}\.\d", "--group", group, "--from-beginning", "--max-messages", "12")
    assert sorted(run_tool("kafka-console-consumer", "--bootstrap-server", bootstrap, *reading).text.split()) == sorted(
        "0123" * 3
    )
    assert admin.committed(group) == ends


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_consumer_performance_tool_reads_in_a_group_what_it_reports(
    bootstrap: str, admin: GroupAdmin, topic: str, group: str, protocol: str
) -> None:
    admin.create(topic, 3)
    ends = {(topic, number): 0 for number in range(3)}
    write(bootstrap, ends, each=5_000)
    server = ("--bootstrap-server", bootstrap, "--topic", topic, "--group", group)
    amount = ("--num-records", "15000", "--timeout", "20000", "--command-property", f"group.protocol={protocol}")
    headings, figures = run_tool("kafka-consumer-perf-test", *server, *amount).text.splitlines()[-2:]
    said = dict(zip(headings.split(", "), figures.split(", "), strict=True))
    assert float(said["data.consumed.in.nMsg" if "data.consumed.in.nMsg" in said else "data.consumed.in.nRecord"]) == 15_000
    assert admin.committed(group) == ends
