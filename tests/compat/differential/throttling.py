"""A client over its quota, on one system: what its answers tell, and that its connection is muted meanwhile (KIP-124, KIP-219).

Kafka compares the average of its last windows of a second, eleven by default, with the rate. So it lets ten seconds' worth
through before it throttles, and tells how long the average needs to sink. Ours lets half a second's worth through and tells how
long the debt takes to pay, at most 10 s. Sizes of throttle times differ by that much, and what they do does not.
"""

import socket
import time
from collections.abc import Mapping
from typing import Any

from tests.compat.differential.batches import batch
from tests.compat.differential.messages import decode_response, encode_request
from tests.compat.differential.scenarios.client_quotas import ALTER, alteration, entry
from tests.compat.differential.systems import TIMEOUT_S, System, read_frame
from tests.support.polling import rounds

SENT = 300_000
RATE = 100_000
"""Bytes a second: a request is the worth of 3 s here, and four are more than Kafka's 10 s."""
TOLD_MS_MAX = 10_000
PRODUCE, FETCH = 9, 12

Answer = Mapping[str, Any]


class Connection:
    """A connection of a client, on which nothing waits unasked for."""

    def __init__(self, system: System, client_id: str) -> None:
        self._client_id = client_id
        self._socket = socket.create_connection(("127.0.0.1", system.port), timeout=TIMEOUT_S)

    def send(self, api: str, version: int, fields: dict[str, Any]) -> None:
        self._socket.sendall(encode_request(api, version, fields, correlation_id=1, client_id=self._client_id))

    def ask(self, api: str, version: int, fields: dict[str, Any]) -> Answer:
        self.send(api, version, fields)
        frame = read_frame(self._socket)
        assert frame is not None, "the connection is closed"
        return decode_response(api, version, frame)

    def silence_s(self) -> float:
        """How long the next request of another kind waits for its answer."""
        since = time.monotonic()
        self.ask("api_versions", 0, {})
        return time.monotonic() - since

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def limit(system: System, client_id: str, quota: str) -> None:
    """By the most specific entity: other scenarios leave quotas of users and of defaults behind."""
    entity = {"user": "ANONYMOUS", "client-id": client_id}
    answer = system.ask(ALTER, 1, alteration(entry(entity, {quota: float(RATE)})))
    assert isinstance(answer, dict)
    assert answer["entries"][0]["error_code"] == 0, answer


def produce(topic: str, *, acks: int = 1) -> dict[str, Any]:
    data = {"index": 0, "records": batch((bytes(SENT),))}
    return {"acks": acks, "timeout": 5000, "topic_data": [{"name": topic, "partition_data": [data]}]}


def fetch(topic: str) -> dict[str, Any]:
    asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": SENT}
    return {"max_wait": 0, "min_bytes": 1, "max_bytes": SENT, "topics": [{"topic": topic, "partitions": [asked]}]}


def produced(answer: Answer) -> Mapping[str, Any]:
    return answer["responses"][0]["partition_responses"][0]  # type: ignore[no-any-return]


def end_of(connection: Connection, topic: str) -> int:
    asked = {"partition_index": 0, "timestamp": -1}
    answer = connection.ask("list_offsets", 5, {"topics": [{"name": topic, "partitions": [asked]}]})
    return answer["topics"][0]["partitions"][0]["offset"]  # type: ignore[no-any-return]


def over_produce_quota(system: System, topic: str) -> dict[str, object]:
    """Produces by a connection each, until one is throttled. Then one without an answer follows."""
    limit(system, topic, "producer_byte_rate")
    for _ in rounds(f"a throttled Produce at {system.name}", TIMEOUT_S):
        with Connection(system, topic) as connection:
            answer = connection.ask("produce", PRODUCE, produce(topic))
            if not (told_ms := answer["throttle_time_ms"]):
                continue
            silence_s = connection.silence_s()
        with Connection(system, topic) as connection, Connection(system, "unlimited") as reader:
            before = end_of(reader, topic)
            connection.send("produce", PRODUCE, produce(topic, acks=0))
            for _ in rounds("the end moves", TIMEOUT_S):  # what arrives together with it would be answered before the mute
                if end_of(reader, topic) > before:
                    break
            unanswered_silence_s = connection.silence_s()
        return {
            "error": produced(answer)["error_code"],
            "stored": produced(answer)["base_offset"] >= 0,
            "told": 0 < told_ms <= TOLD_MS_MAX,
            "muted": silence_s >= 0.8 * told_ms / 1000,
            "muted without an answer": unanswered_silence_s >= 0.5,
        }
    raise AssertionError("unreachable: rounds() ends by raising")


def over_fetch_quota(system: System, topic: str) -> dict[str, object]:
    """Fetches by a connection each, until one is throttled and has no records."""
    with Connection(system, "unlimited") as writer:
        assert produced(writer.ask("produce", PRODUCE, produce(topic)))["error_code"] == 0
    limit(system, topic, "consumer_byte_rate")
    for _ in rounds("a throttled Fetch", TIMEOUT_S):
        with Connection(system, topic) as connection:
            answer = connection.ask("fetch", FETCH, fetch(topic))
            found = [each["records"] for topics in answer["responses"] for each in topics["partitions"]]
            if not (told_ms := answer["throttle_time_ms"]) or any(found):
                continue
            silence_s = connection.silence_s()
        return {
            "error": answer["error_code"],
            "told": 0 < told_ms <= TOLD_MS_MAX,
            "responses": len(answer["responses"]),
            "muted": silence_s >= 0.8 * told_ms / 1000,
        }
    raise AssertionError("unreachable: rounds() ends by raising")


ALL = {"produce": over_produce_quota, "fetch": over_fetch_quota}
