"""kcat, as people use it in a shell."""

import json
from pathlib import Path

import pytest

from services.local.cluster_shape import HOST
from tests.compat.clients.admin import Admin
from tests.compat.kafka.tools import run_kcat
from tests.support.cluster_harness import LocalCluster
from tests.support.polling import eventually


def test_a_listing_shows_brokers_topics_and_leaders(cluster: LocalCluster, bootstrap: str, admin: Admin, topic: str) -> None:
    admin.create(topic, partitions=6)
    listed = json.loads(run_kcat("-L", "-J", "-b", bootstrap).text)
    assert {broker["id"]: broker["name"] for broker in listed["brokers"]} == {
        node: f"{HOST}:{cluster.shape.port + node}" for node in (1, 2, 3)
    }
    (found,) = [entry for entry in listed["topics"] if entry["topic"] == topic]
    assert [partition["partition"] for partition in found["partitions"]] == list(range(6))
    for partition in found["partitions"]:
        assert partition["replicas"] == partition["isrs"]
        assert partition["replicas"][0] == {"id": partition["leader"]}
        assert sorted(replica["id"] for replica in partition["replicas"]) == [1, 2, 3]
    assert f'topic "{topic}" with 6 partitions' in run_kcat("-L", "-b", bootstrap, "-t", topic).text


def test_a_file_goes_in_by_lines_and_comes_out_by_partition(bootstrap: str, admin: Admin, topic: str, tmp_path: Path) -> None:
    admin.create(topic, partitions=3)
    lines = [f"{number} of partition {number % 3}" for number in range(3_000)]
    for partition in range(3):
        file = tmp_path / str(partition)
        file.write_text("".join(line + "\n" for line in lines[partition::3]), encoding="utf-8")
        run_kcat("-P", "-b", bootstrap, "-t", topic, "-p", str(partition), "-l", str(file))
    for partition in range(3):
        where = ("-b", bootstrap, "-t", topic, "-p", str(partition))
        assert run_kcat("-C", "-e", "-q", *where, "-o", "beginning").text.splitlines() == lines[partition::3]
    everything = run_kcat("-C", "-e", "-q", "-b", bootstrap, "-t", topic).text.splitlines()
    assert sorted(everything) == sorted(lines)


def test_reading_begins_at_the_requested_offset(bootstrap: str, admin: Admin, topic: str) -> None:
    admin.create(topic)
    where = ("-b", bootstrap, "-t", topic, "-p", "0")
    run_kcat("-P", *where, stdin="".join(f"{number}\n" for number in range(100)).encode())

    def read(offset: str, *more: str) -> list[str]:
        return run_kcat("-C", "-e", "-q", *where, "-o", offset, *more).text.split()

    assert read("beginning") == [str(number) for number in range(100)]
    assert read("95") == ["95", "96", "97", "98", "99"]
    assert read("-3") == ["97", "98", "99"]
    assert read("10", "-c", "2") == ["10", "11"]
    assert read("end") == []
    assert read("s@0", "-c", "1") == ["0"]


@pytest.mark.parametrize("offset", ["s@99999999999999", "100"])
def test_reading_past_the_end_gives_nothing(bootstrap: str, admin: Admin, topic: str, offset: str) -> None:
    admin.create(topic)
    run_kcat("-P", "-b", bootstrap, "-t", topic, stdin=b"only\n")
    # librdkafka resets an offset beyond the end to the largest, which is the end.
    assert run_kcat("-C", "-e", "-q", "-b", bootstrap, "-t", topic, "-p", "0", "-o", offset).stdout == b""


def test_offsets_are_asked_for_by_time(bootstrap: str, admin: Admin, topic: str) -> None:
    admin.create(topic)
    run_kcat("-P", "-b", bootstrap, "-t", topic, stdin=b"a\nb\nc\n")
    asked = run_kcat("-Q", "-b", bootstrap, *(argument for when in (0, -1, -2) for argument in ("-t", f"{topic}:0:{when}")))
    assert asked.returncode == 0
    for when, offset in ((-2, 0), (-1, 3)):
        said = run_kcat("-Q", "-b", bootstrap, "-t", f"{topic}:0:{when}").text
        assert said.strip() == f"{topic} [0] offset {offset}", when


def test_a_topic_is_made_by_writing_to_it(bootstrap: str, admin: Admin, topic: str) -> None:
    assert topic not in admin.names()
    run_kcat("-P", "-b", bootstrap, "-t", topic, stdin=b"first\n")
    eventually(lambda: topic in admin.names())
    assert run_kcat("-C", "-e", "-q", "-b", bootstrap, "-t", topic).stdout == b"first\n"


def test_reading_a_topic_that_is_not_there_makes_none(bootstrap: str, admin: Admin, topic: str) -> None:
    refused = run_kcat("-C", "-e", "-b", bootstrap, "-t", topic, "-X", "allow.auto.create.topics=false", check=False)
    assert refused.returncode != 0
    assert b"Unknown topic" in refused.stderr
    assert topic not in admin.names()


@pytest.mark.parametrize("acks", ["0", "1", "-1"])
def test_every_acks_setting_stores_every_line(bootstrap: str, admin: Admin, topic: str, acks: str) -> None:
    admin.create(topic)
    lines = "".join(f"{number}\n" for number in range(10_000)).encode()
    run_kcat("-P", "-b", bootstrap, "-t", topic, "-X", f"acks={acks}", stdin=lines)
    assert run_kcat("-C", "-q", "-c", "10000", "-b", bootstrap, "-t", topic, "-o", "beginning").stdout == lines


def test_an_idempotent_kcat_writes_each_line_once(bootstrap: str, admin: Admin, topic: str) -> None:
    admin.create(topic)
    lines = "".join(f"{number}\n" for number in range(10_000)).encode()
    run_kcat("-P", "-b", bootstrap, "-t", topic, "-X", "enable.idempotence=true", stdin=lines)
    assert run_kcat("-C", "-e", "-q", "-b", bootstrap, "-t", topic).stdout == lines
