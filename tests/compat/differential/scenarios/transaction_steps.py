"""The steps of a transaction whose transactional id is the scenario's topic. The first step has the producer id and epoch."""

from collections.abc import Callable
from typing import NamedTuple

from tests.compat.differential.batches import TRANSACTIONAL, batch
from tests.compat.differential.scenario import Fields, Step, World
from tests.compat.differential.scenarios.produce import produce

INIT, ADD, END, PRODUCE = "init_producer_id", "add_partitions_to_txn", "end_txn", "produce"
ADD_OFFSETS, COMMIT, DESCRIBE = "add_offsets_to_txn", "txn_offset_commit", "describe_transactions"

Build = Callable[[World], Fields]
GROUP = "transactional"


class As(NamedTuple):
    """How a request differs from the right one. `step`: which step has the producer id and epoch."""

    step: int = 0
    id_off_by: int = 0
    epoch_off_by: int = 0
    transactional_id: str | None = None

    def fields(self, world: World, prefix: str = "") -> Fields:
        known = world.answer(self.step)
        return {
            f"{prefix}transactional_id": world.topic if self.transactional_id is None else self.transactional_id,
            f"{prefix}producer_id": known["producer_id"] + self.id_off_by,
            f"{prefix}producer_epoch": known["producer_epoch"] + self.epoch_off_by,
        }


RIGHT = As()


def init(*, timeout_ms: int = 60_000) -> Step:
    return Step(INIT, 5, fresh(timeout_ms=timeout_ms))


def fresh(*, timeout_ms: int = 60_000) -> Build:
    """InitProducerId by a producer that begins."""
    return lambda world: {"transactional_id": world.topic, "transaction_timeout": timeout_ms}


def known(sender: As = RIGHT) -> Build:
    """InitProducerId by a producer that has an id and epoch."""
    return lambda world: {**sender.fields(world), "transaction_timeout": 60_000}


def adding(*indexes: int, sender: As = RIGHT, topic: str | None = None) -> Build:
    return lambda world: {
        **sender.fields(world, "v3_and_below_"),
        "v3_and_below_topics": [{"name": topic or world.topic, "partitions": list(indexes)}],
    }


def adding_to_several(*senders: As, indexes: tuple[int, ...] = (0,), topic: str | None = None, verify: bool = False) -> Build:
    return lambda world: {
        "transactions": [
            {
                **sender.fields(world),
                "verify_only": verify,
                "topics": [{"name": topic or world.topic, "partitions": list(indexes)}],
            }
            for sender in senders
        ]
    }


def ending(*, committed: bool = True, sender: As = RIGHT) -> Build:
    return lambda world: {**sender.fields(world), "committed": committed}


def producing(sequence: int, *, sender: As = RIGHT, attributes: int = TRANSACTIONAL, named: bool = True) -> Build:
    def build(world: World) -> Fields:
        about = sender.fields(world)
        producer = about["producer_id"], about["producer_epoch"], sequence
        name = about["transactional_id"] if named else None
        return produce(world, (0, batch(attributes=attributes, producer=producer)), transactional_id=name)

    return build


def adding_offsets(*, sender: As = RIGHT, group: str = GROUP) -> Build:
    return lambda world: {**sender.fields(world), "group_id": group}


def committing(index: int = 0, *, sender: As = RIGHT) -> Build:
    offsets = [{"partition_index": index, "committed_offset": 1, "committed_metadata": ""}]
    return lambda world: {
        **sender.fields(world),
        "group_id": GROUP,
        "generation_id": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": world.topic, "partitions": offsets}],
    }


def until_complete(world: World) -> Step:
    """Markers are written behind the answer to EndTxn."""
    asked = {"transactional_ids": [world.topic]}
    return Step(
        DESCRIBE, 0, asked, until=lambda answer: answer["transaction_states"][0]["transaction_state"].startswith("Complete")
    )
