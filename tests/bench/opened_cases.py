"""Cases where the leader looks into batches: every record checked as Kafka always does, and codecs that the topic does not keep.

`produce-*` of the raw cases has the same load with `record.validation=header`. `cpu_us` leaves out the processes that open
batches.
"""

import time
from collections.abc import Mapping
from dataclasses import replace

from tests.bench import frames
from tests.bench.cases import KIB, Case, Topic, produce_case, unique
from tests.bench.sides import Side

FULL = {"record.validation": "full"}


def opened_cases() -> list[Case]:
    cases = []
    for label, size, value_size in (("1KB", KIB, 1000), ("16KB", 16 * KIB, 1000), ("16KB-of-100B", 16 * KIB, 100)):
        for connections in (1, 4):
            base = produce_case(f"produce-full-{label}-{connections}conn", size, connections, value_size=value_size)
            cases.append(_with_topic(base, size, connections, value_size, own=FULL, said="record.validation=full"))
    for codec in ("lz4", "zstd"):
        base = produce_case(f"produce-to-{codec}-16KB-4conn", 16 * KIB, 4, value_size=100)
        cases.append(_with_topic(base, 16 * KIB, 4, 100, both={"compression.type": codec}, said=f"compression.type={codec}"))
    return cases


def _with_topic(
    case: Case,
    size: int,
    connections: int,
    value_size: int,
    *,
    said: str,
    both: Mapping[str, str] | None = None,
    own: Mapping[str, str] | None = None,
) -> Case:
    """`own`: configs that only Penstock has."""

    def prepare(side: Side) -> Topic:
        topic = unique(case.name)
        side.create_topic(topic, connections, {**(both or {}), **(own or {} if side.name == "penstock" else {})})
        batch, _ = frames.batch_of_about(size, value_size, time.time_ns() // 1_000_000)
        targets = [(leader, frames.produce_frame(topic, i, batch, 1)) for i, leader in enumerate(side.leaders(topic))]
        return Topic(topic, targets, len(batch))

    return replace(case, settings=f"{case.settings}, {said}", prepare=prepare, mark="")
