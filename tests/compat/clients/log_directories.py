"""The log directories of replicas, from kafka-log-dirs."""

import json
from typing import NamedTuple

from tests.compat.kafka.tools import run_tool


class ReplicaAt(NamedTuple):
    lag: int
    is_future: bool


def directories(bootstrap: str, topic: str) -> dict[int, dict[str, ReplicaAt | None]]:
    """The replicas of the topic's first partition, by broker and path."""
    said = run_tool("kafka-log-dirs", "--bootstrap-server", bootstrap, "--describe", "--topic-list", topic).text
    found: dict[int, dict[str, ReplicaAt | None]] = {}
    for broker in json.loads(said.splitlines()[-1])["brokers"]:
        for directory in broker["logDirs"]:
            assert directory["error"] is None
            there = [ReplicaAt(one["offsetLag"], one["isFuture"]) for one in directory["partitions"]]
            found.setdefault(broker["broker"], {})[directory["logDir"]] = there[0] if there else None
    return found


def where(bootstrap: str, topic: str, node: int) -> str:
    return next(path for path, one in directories(bootstrap, topic)[node].items() if one is not None and not one.is_future)


def elsewhere(bootstrap: str, topic: str, node: int) -> str:
    here = directories(bootstrap, topic)[node]
    return next(path for path, one in here.items() if one is None)
