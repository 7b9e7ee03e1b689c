"""Kafka's own tools move replicas between nodes, and leaders between replicas, while producers and consumers go on."""

import json
import re
from pathlib import Path

from confluent_kafka.admin import ResourceType

from tests.compat.clients.admin import Admin
from tests.compat.clients.five_clients import consume
from tests.compat.clients.replica_placement import Layout, fill, layout, place, reassign
from tests.compat.kafka.tools import run_tool
from tests.support.polling import eventually


def plan_of(topic: str, wanted: Layout) -> str:
    partitions = [{"topic": topic, "partition": index, "replicas": replicas} for index, replicas in wanted.items()]
    return json.dumps({"version": 1, "partitions": partitions})


def test_kafkas_tool_plans_a_reassignment_carries_it_out_and_verifies_it(
    bootstrap: str, admin: Admin, topic: str, tmp_path: Path
) -> None:
    place(admin, topic, [[1, 2], [2, 1]])
    fill(bootstrap, topic, 1000, partitions=2)
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}), encoding="utf-8")
    said = reassign(bootstrap, "--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "2,3").text
    assert "Proposed partition reassignment configuration" in said
    proposed = json.loads(said.splitlines()[-1])["partitions"]
    assert {node for partition in proposed for node in partition["replicas"]} <= {2, 3}
    plan = tmp_path / "plan.json"
    plan.write_text(plan_of(topic, {0: [2, 3], 1: [3, 2]}), encoding="utf-8")
    throttle = ("--throttle", "50000000")
    said = reassign(bootstrap, "--execute", "--reassignment-json-file", str(plan), *throttle).text
    assert f"Successfully started partition reassignments for {topic}-0,{topic}-1" in said
    eventually(lambda: layout(admin, topic) == {0: [2, 3], 1: [3, 2]})
    said = reassign(bootstrap, "--verify", "--reassignment-json-file", str(plan)).text
    assert f"Reassignment of partition {topic}-0 is completed." in said
    assert f"Reassignment of partition {topic}-1 is completed." in said
    assert "Clearing broker-level throttles" in said
    rate = admin.config(ResourceType.BROKER, "1").get("leader.replication.throttled.rate")
    assert rate is None or rate.is_default
    assert "No partition reassignments found." in reassign(bootstrap, "--list").text
    for index in (0, 1):
        found = consume(bootstrap, topic, 500, partition=index)
        assert [int(message.value() or b"") for message in found] == list(range(index, 1000, 2))


def test_reassignments_in_progress_are_listed_and_cancelled(bootstrap: str, admin: Admin, topic: str, tmp_path: Path) -> None:
    place(admin, topic, [[1]])
    fill(bootstrap, topic, 20_000)
    plan = tmp_path / "plan.json"
    plan.write_text(plan_of(topic, {0: [3]}), encoding="utf-8")
    reassign(bootstrap, "--execute", "--reassignment-json-file", str(plan), "--throttle", "1")
    assert re.search(rf"{topic}-0: replicas: 3,1\. adding: 3\. removing: 1\.", reassign(bootstrap, "--list").text)
    said = reassign(bootstrap, "--verify", "--reassignment-json-file", str(plan)).text
    assert f"Reassignment of partition {topic}-0 is still in progress." in said
    said = reassign(bootstrap, "--cancel", "--reassignment-json-file", str(plan)).text
    assert f"Successfully cancelled partition reassignment for: {topic}-0" in said
    assert layout(admin, topic) == {0: [1]}
    assert len(consume(bootstrap, topic, 20_000)) == 20_000


def test_a_plan_for_a_node_that_nobody_knows_is_refused_with_words(
    bootstrap: str, admin: Admin, topic: str, tmp_path: Path
) -> None:
    place(admin, topic, [[1]])
    plan = tmp_path / "plan.json"
    plan.write_text(plan_of(topic, {0: [9]}), encoding="utf-8")
    refused = reassign(bootstrap, "--execute", "--reassignment-json-file", str(plan), check=False)
    assert "Unknown broker id 9" in refused.text + refused.stderr.decode()
    assert layout(admin, topic) == {0: [1]}


def test_kafkas_tool_gives_leadership_back_to_the_preferred_replica(
    bootstrap: str, admin: Admin, topic: str, tmp_path: Path
) -> None:
    place(admin, topic, [[1, 2, 3]])
    plan = tmp_path / "plan.json"
    plan.write_text(plan_of(topic, {0: [2, 1, 3]}), encoding="utf-8")
    reassign(bootstrap, "--execute", "--reassignment-json-file", str(plan))
    eventually(lambda: layout(admin, topic) == {0: [2, 1, 3]})

    def elect(kind: str) -> str:
        asked = ("--election-type", kind, "--topic", topic, "--partition", "0")
        return run_tool("kafka-leader-election", "--bootstrap-server", bootstrap, *asked).text

    assert f"Successfully completed leader election (PREFERRED) for partitions {topic}-0" in elect("preferred")
    eventually(lambda: admin.client.list_topics(topic, timeout=60).topics[topic].partitions[0].leader == 2)
    assert f"Valid replica already elected for partitions {topic}-0" in elect("preferred")
    assert f"Valid replica already elected for partitions {topic}-0" in elect("unclean")


def test_kafkas_tool_describes_what_lies_in_each_log_directory(bootstrap: str, admin: Admin, topic: str) -> None:
    place(admin, topic, [[1, 2]])
    fill(bootstrap, topic, 100)
    said = run_tool("kafka-log-dirs", "--bootstrap-server", bootstrap, "--describe", "--topic-list", topic).text
    brokers = json.loads(said.splitlines()[-1])["brokers"]
    found = {}
    for broker in brokers:
        (directory,) = broker["logDirs"]
        assert directory["error"] is None
        found[broker["broker"]] = directory["partitions"]
    assert found[3] == []
    for node in (1, 2):
        ((partition),) = found[node]
        assert partition["partition"] == f"{topic}-0"
        assert partition["size"] > 100
        assert (partition["offsetLag"], partition["isFuture"]) == (0, False)
