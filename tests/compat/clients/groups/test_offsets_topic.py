"""`__consumer_offsets` as others read it: by Kafka's formatters through Fetch, and by Kafka's DumpLogSegments from our files."""

import json
import re
from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec

from tests.compat.clients.groups.background_writes import write
from tests.compat.clients.groups.brokers import Brokers
from tests.compat.clients.groups.client_kinds import Kind
from tests.compat.clients.groups.group_members import GroupMembers
from tests.compat.clients.groups.offsets import GroupAdmin
from tests.compat.kafka.tools import run_tool, run_tools

TOPIC = "__consumer_offsets"
KINDS = {"classic": {"1", "2"}, "consumer": {"1", "3", "5", "6", "7", "8"}}
"""Of records, by the protocol of the group that left them: 1 an offset, 2 a classic group, the others parts of a new one."""
FORMATTERS = "org.apache.kafka.tools.consumer"


def shard_of(group: str) -> int:
    """The absolute value of Java's hash of an id in ASCII, modulo the number of partitions."""
    code = 0
    for letter in group.encode("ascii"):
        code = (31 * code + letter) & 0xFFFFFFFF
    return min(code, 2**32 - code) % 50


def values(printed: str) -> Iterator[dict[str, object]]:
    """JSON objects without anything between them."""
    decoder, position = json.JSONDecoder(), 0
    while position < len(printed.rstrip()):
        value, position = decoder.raw_decode(printed, position)
        yield value


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_kafkas_formatters_and_its_dump_read_what_a_group_left(
    protocol: str, group_members: GroupMembers, brokers: Brokers, bootstrap: str, admin: GroupAdmin, topic: str, group: str
) -> None:
    admin.create(topic, 2)
    ends = {(topic, 0): 0, (topic, 1): 0}
    write(bootstrap, ends, each=7)
    member = group_members.join(Kind("librdkafka", protocol=protocol), topic)
    group_members.until_committed(ends)
    member.leave()
    run_tool(
        *("kafka-consumer-groups", "--bootstrap-server", bootstrap, "--group", group),
        *("--delete-offsets", "--topic", f"{topic}:0"),
    )
    shard = shard_of(group)
    where = TopicPartition(TOPIC, shard)
    end = admin.client.list_offsets({where: OffsetSpec.latest()})[where].result().offset
    reading = ("--topic", TOPIC, "--partition", str(shard), "--offset", "earliest", "--max-messages", str(end))
    server = ("kafka-console-consumer", "--bootstrap-server", bootstrap, *reading)
    dumped = next(found for place in brokers.log_directories for found in place.glob(f"**/{TOPIC}-{shard}/{0:020d}.log"))
    offsets, groups, dump = run_tools(
        (*server, "--formatter", f"{FORMATTERS}.OffsetsMessageFormatter"),
        (*server, "--formatter", f"{FORMATTERS}.GroupMetadataMessageFormatter"),
        ("kafka-dump-log", "--offsets-decoder", "--files", str(dumped)),
    )

    group_records = [record for record in values(offsets.text) if record["key"]["data"]["group"] == group]
    assert {record["key"]["type"] for record in group_records} == {1}
    last = {record["key"]["data"]["partition"]: record["value"] for record in group_records}
    assert last[0] is None
    assert last[1]["data"]["offset"] == 7
    assert {record["key"]["data"]["topic"] for record in group_records} == {topic}

    of_groups = [record for record in values(groups.text) if record["key"]["data"]["group"] == group]
    if protocol == "classic":
        generations = [record["value"]["data"] for record in of_groups if record["key"]["type"] == 2]
        with_members = [generation for generation in generations if generation["members"]]
        assert [(who["clientId"], who["clientHost"]) for who in with_members[-1]["members"]] == [("rdkafka", "/127.0.0.1")]
        assert with_members[-1]["protocol"] == "range"
        assert with_members[-1]["protocolType"] == "consumer"

    ours = [line for line in re.findall(r"\bkey: .*$", dump.text, re.MULTILINE) if f'"{group}"' in line]
    assert {re.search(r'"type":"?(\d+)', line)[1] for line in ours} == KINDS[protocol]
    assert [line for line in ours if '"partition":0}} payload: <DELETE>' in line]
