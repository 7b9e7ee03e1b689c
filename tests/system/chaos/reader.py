"""A client that reads topics from their beginnings to what was acknowledged last."""

import time
from collections.abc import Sequence

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from tests.system.chaos.judge import Found, Verdict, decode, judge
from tests.system.chaos.streams import Stream

WITHIN_S = 90.0
Where = tuple[str, int]


def read_and_judge(bootstrap: str, streams: Sequence[Stream]) -> Verdict:
    """Reads and judges everything that was acknowledged when this is called."""
    # The acknowledged are copied first: what is acknowledged while this reads may lie behind its end.
    ends = {(stream.topic, index): _end(stream, index) for stream in streams for index in range(stream.plan.partitions)}
    acknowledged_counts = {where: len(_of(streams, where)[0].written[where[1]].acknowledged) for where in ends}
    verdict, found = _read(bootstrap, streams, ends)
    for where in ends:
        stream, index = _of(streams, where)
        written = stream.written[index]
        snapshot = type(written)(written.acknowledged[: acknowledged_counts[where]], written.caught, set(), written.next)
        verdict.add(judge(f"{stream.plan.name}-{index}", stream.plan, snapshot, found[where]))
    return verdict


def _of(streams: Sequence[Stream], where: Where) -> tuple[Stream, int]:
    return next(stream for stream in streams if stream.topic == where[0]), where[1]


def _end(stream: Stream, index: int) -> int:
    """The greatest offset that was acknowledged in the present life: earlier ones may have been lost, where that is allowed."""
    latest = [one[1] for one in stream.written[index].acknowledged[-2000:] if one[0] == stream.life and one[1] is not None]
    return max(latest, default=-1)


def _read(bootstrap: str, streams: Sequence[Stream], ends: dict[Where, int]) -> tuple[Verdict, dict[Where, list[Found]]]:
    verdict = Verdict()
    found: dict[Where, list[Found]] = {where: [] for where in ends}
    plans = {stream.topic: stream.plan for stream in streams}
    behind = {where for where, end in ends.items() if end >= 0}
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "fetch.wait.max.ms": 50,
            "fetch.error.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "log_level": 2,
            "queued.min.messages": 20_000,
        }
    )
    try:
        reader.assign([TopicPartition(*where, OFFSET_BEGINNING) for where in behind])
        deadline = time.monotonic() + WITHIN_S
        while behind and time.monotonic() < deadline:
            for message in reader.consume(5000, timeout=0.1):
                topic, index = message.topic(), message.partition()
                where = (topic, index)
                plan = plans[topic]
                if (error := message.error()) is not None:
                    if plan.shrinks and error.code() == KafkaError._AUTO_OFFSET_RESET:
                        found[where].clear()  # retention came past: what was read is no longer the log's beginning
                        reader.incremental_unassign([TopicPartition(topic, index)])
                        reader.incremental_assign([TopicPartition(topic, index, OFFSET_BEGINNING)])
                    elif error.code() not in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
                        verdict.complaints.append(f"{plan.name}-{index}: the client reads {error}")
                        behind.discard(where)
                    continue
                if where not in behind:
                    continue
                one = decode(plan, index, message.offset(), message.value(), message.key())
                if isinstance(one, str):
                    verdict.complaints.append(f"{plan.name}-{index}: {one}")
                    continue
                found[where].append(one)
                if one.offset >= ends[where]:
                    behind.discard(where)
                    reader.pause([TopicPartition(topic, index)])
        for topic, index in behind:
            last, name = found[topic, index][-1:], f"{plans[topic].name}-{index}"
            verdict.complaints.append(f"{name}: reaches {last}, not {ends[topic, index]}, within {WITHIN_S:.0f} s")
    finally:
        reader.close()
    return verdict, found
