"""Kafka 4.2.1's own assignors, given the same groups: what `range` gives is the same, and what `uniform` gives is as good."""

import json
import subprocess
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from services.group_coordinator.core.consumer.assignors import assign
from services.group_coordinator.core.consumer.assignors.spec import Assignment, GroupSpec
from tests.compat.kafka.jars import KafkaJars
from tests.compat.kafka.tools import SHORT_LIVED
from tests.group_coordinator.assignors.specs import after, check_valid, loads, moved, plain, random_spec, sound
from tests.support.requirements import ROOT, require

HERE = Path(__file__).parent
GROUPS = 400


@pytest.fixture(scope="module")
def groups() -> list[GroupSpec]:
    """Such as Kafka passes on."""
    random = Random(20261122)
    result = [sound(random_spec(random, **_size(random))) for _ in range(GROUPS)]
    settled = plain(10, 50, topics=2)
    settled = after(settled, assign("uniform", settled))
    newcomer = replace(settled.members["m0000"], assigned={})
    result.append(replace(settled, members={**settled.members, "new": newcomer}))
    result.append(replace(settled, members={k: v for k, v in settled.members.items() if k != "m0003"}))
    return result


def _size(random: Random) -> dict[str, int | bool]:
    large = random.random() < 0.1
    return {
        "members": random.randint(1, 40 if large else 8),
        "topics": random.randint(1, 12 if large else 4),
        "partitions_max": 60 if large else 9,
        "same_subscriptions": random.random() < 0.5,
    }


@pytest.fixture(scope="module")
def by_kafka(groups: list[GroupSpec]) -> dict[str, list[Assignment]]:
    require("java", "kafka")
    request = [_as_json(name, spec) for name in ("range", "uniform") for spec in groups]
    jars = KafkaJars(ROOT).command("KafkaAssignors", options=SHORT_LIVED)
    argv = [*jars[:-1], str(HERE / "KafkaAssignors.java")]
    done = subprocess.run(argv, input="\n".join(request), capture_output=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    answers = [_from_json(line) for line in done.stdout.splitlines()]
    return {"range": answers[: len(groups)], "uniform": answers[len(groups) :]}


def _as_json(name: str, spec: GroupSpec) -> str:
    members = {
        member_id: {
            "instance": member.instance_id,
            "rack": member.rack_id,
            "topics": [_text(known) for known in member.subscribed],
            "assigned": {_text(known): list(partitions) for known, partitions in member.assigned.items()},
        }
        for member_id, member in spec.members.items()
    }
    topics = {_text(known): topic.partitions for known, topic in spec.topics.items()}
    return json.dumps({"assignor": name, "topics": topics, "members": members})


def _from_json(line: str) -> Assignment:
    return {
        member_id: {urlsafe_b64decode(known + "=="): partitions for known, partitions in topics.items()}
        for member_id, topics in json.loads(line).items()
    }


def _text(known: bytes) -> str:
    return urlsafe_b64encode(known).decode().rstrip("=")


def test_range_gives_every_member_what_kafkas_gives_it(groups: list[GroupSpec], by_kafka: dict[str, list[Assignment]]) -> None:
    for spec, theirs in zip(groups, by_kafka["range"], strict=True):
        ours = assign("range", spec)
        listed = {member_id: {known: list(those) for known, those in topics.items()} for member_id, topics in ours.items()}
        assert listed == dict(theirs)


def test_uniform_is_valid_and_as_even_as_kafkas(groups: list[GroupSpec], by_kafka: dict[str, list[Assignment]]) -> None:
    """Sums are compared: with different subscriptions neither side finds the most even of all assignments."""
    ours_in_all = theirs_in_all = 0
    for spec, answer in zip(groups, by_kafka["uniform"], strict=True):
        ours = assign("uniform", spec)
        theirs = {member_id: answer.get(member_id, {}) for member_id in spec.members}
        check_valid(spec, ours)
        check_valid(spec, theirs)  # so that what is compared is what is meant
        if len({member.subscribed for member in spec.members.values()}) == 1:
            assert sorted(loads(ours).values()) == sorted(loads(theirs).values())
        ours_in_all += _unevenness(ours)
        theirs_in_all += _unevenness(theirs)
    assert ours_in_all <= 1.001 * theirs_in_all


def test_uniform_moves_no_more_than_kafkas_where_subscriptions_are_equal(
    groups: list[GroupSpec], by_kafka: dict[str, list[Assignment]]
) -> None:
    compared = 0
    for spec, theirs in zip(groups, by_kafka["uniform"], strict=True):
        if len({member.subscribed for member in spec.members.values()}) == 1:
            assert moved(spec, assign("uniform", spec)) <= moved(spec, theirs)
            compared += 1
    assert compared > GROUPS / 3


def test_uniform_moves_hardly_more_than_kafkas_where_subscriptions_differ(
    groups: list[GroupSpec], by_kafka: dict[str, list[Assignment]]
) -> None:
    ours = theirs = 0
    for spec, answer in zip(groups, by_kafka["uniform"], strict=True):
        if len({member.subscribed for member in spec.members.values()}) > 1:
            ours += moved(spec, assign("uniform", spec))
            theirs += moved(spec, answer)
    assert ours <= 1.05 * theirs


def _unevenness(assignment: Assignment) -> int:
    return sum(load * load for load in loads(assignment).values())
