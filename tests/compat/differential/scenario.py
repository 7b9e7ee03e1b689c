"""Scenarios: a request over versions, its preconditions, and the listed differences that it shows."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from libs.wire.apis import APIS
from tests.compat.differential.messages import CLIENT_ID, message_class, versions_of
from tests.compat.differential.systems import TIMEOUT_S, PendingResponse, System

Fields = dict[str, Any]
ANY = object()
ABSENT = "(absent)"


@dataclass(frozen=True)
class World:
    """The system, topic and version for which a request is being built."""

    system: System
    version: int
    topic: str
    """The scenario's own topic; of this version if the scenario says so."""
    client_id: str = CLIENT_ID
    responses: list[PendingResponse] = field(default_factory=list)
    """Answers to the steps before, in order; to wait for a parked one may take as long as the others let it."""

    @property
    def topic_id(self) -> bytes:
        return self.system.topic_ids[self.topic]

    def names(self, field_name: str = "name", topic: str | None = None) -> Fields:
        """The ways to name a topic: by name, and by id where the version has ids."""
        name = self.topic if topic is None else topic
        return {field_name: name, "topic_id": self.system.topic_ids.get(name, UNKNOWN_ID)}

    def answer(self, step: int) -> Fields:
        """Of that step."""
        answer = self.responses[step].answer()
        assert isinstance(answer, dict), answer
        return answer

    def member_id(self, step: int = 0) -> str:
        """Which that step was answered with."""
        return str(self.answer(step)["member_id"])


UNKNOWN_ID = bytes.fromhex("00112233445566778899aabbccddeeff")


@dataclass(frozen=True)
class Differs:
    """A listed difference (`services/gateway/protocol_docs/differences.py`) where a scenario shows it.

    `at` is a path into the answer: `*` is any one step, `**` any rest, `a|b` either, "" the answer as a whole. A dot in a name
    is written `_`.
    """

    id: str
    at: str
    kafka: Any = ANY
    penstock: Any = ANY
    versions: Iterable[int] | None = None

    def covers(self, version: int, path: tuple[str, ...], kafka: Any, penstock: Any) -> bool:
        if self.versions is not None and version not in self.versions:
            return False
        return _matches(path, self.at) and self.kafka in (ANY, kafka) and self.penstock in (ANY, penstock)


@dataclass(frozen=True)
class Step:
    """A request that comes before the one that matters; its answer is compared too, and must not differ."""

    api: str
    version: int
    fields: Fields | Callable[[World], Fields]
    """Of what the steps before it were answered, if it is a function."""
    parked_in: str = ""
    """A group's state, for a request that is not answered at once: the next one is sent when the group is in it."""
    left: bool = False
    """Nobody waits for the answer of this parked one."""
    until: Callable[[Fields], bool] | None = None
    """The request is sent again until its answer is so."""


@dataclass(frozen=True)
class Scenario:
    """`ask` builds the request's fields, or the whole frame as bytes."""

    name: str
    api: str
    ask: Callable[[World], Fields | bytes]
    versions: Iterable[int] | None = None
    before: Callable[[World], Iterable[Step]] | None = None
    partitions: int = 0
    """Of the scenario's topic; 0: it needs none."""
    configs: Mapping[str, str] = field(default_factory=dict)
    own_configs: Mapping[str, str] = field(default_factory=dict)
    """Of the topic in Penstock only: Kafka does not know them."""
    a_topic_per_version: bool = False
    own_client: bool = False
    """Its requests have a client id that no other scenario and version has."""
    differs: tuple[Differs, ...] = ()
    answer_version: int | None = None
    """The version of the answer, where it is not that of the request."""
    timeout_s: float = TIMEOUT_S
    """For an answer of Kafka; after it, it counts as stuck."""

    @property
    def slug(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", f"{self.api} {self.name}".lower()).strip("-")

    def each_version(self) -> list[int]:
        return list(self.versions) if self.versions is not None else served_versions(self.api)

    def topic(self, version: int) -> str:
        return f"{self.slug}-v{version}" if self.a_topic_per_version else self.slug

    def client_id(self, version: int) -> str:
        return f"{self.slug}-v{version}" if self.own_client else CLIENT_ID

    def topics(self) -> list[str]:
        return list(dict.fromkeys(self.topic(version) for version in self.each_version())) if self.partitions else []


def served_versions(api: str) -> list[int]:
    """The versions in our table: a version that is served and not compared cannot exist."""
    key = message_class(api, "request", versions_of(api)[0]).__api_key__
    row = next(row for row in APIS.values() if int(row.key) == key)
    return list(range(row.min_version, row.max_version + 1))


def _matches(path: tuple[str, ...], pattern: str) -> bool:
    wanted = pattern.split(".") if pattern else []
    for i, step in enumerate(wanted):
        if step == "**":
            return True
        if i >= len(path) or (step != "*" and path[i].replace(".", "_") not in step.split("|")):
            return False
    return len(path) == len(wanted)
