"""The index of transactions says what a walk over all of them would say, whatever is reverted, loaded or removed."""

from random import Random

import pytest

from services.transaction_coordinator.core.requests import AddPartitions
from services.transaction_coordinator.core.transaction import Producer
from services.transaction_coordinator.core.transaction_machine import TransactionMachine, TransactionSettings
from tests.transaction_coordinator.stage import TransactionStage

IDS = 8


def machine_of(stage: TransactionStage) -> TransactionMachine:
    machine = stage.shard.machine
    assert isinstance(machine, TransactionMachine)
    return machine


@pytest.mark.parametrize("seed", range(20))
def test_the_index_is_right_after_any_history(seed: int) -> None:
    random = Random(seed)
    stage = TransactionStage(TransactionSettings(id_expiration_ms=20_000, expiry_check_ms=5_000))
    producers: dict[str, Producer] = {}
    for _ in range(150):
        name = f"t{random.randrange(IDS)}"
        match random.choice(("init", "add", "add", "end", "markers", "wait", "lost", "lost", "fail over")):
            case "init":
                reply = stage.init(name, timeout_ms=random.choice((1_000, 60_000)))
                if not reply.error_code:
                    producers[name] = reply.producer
            case "add" if name in producers:
                stage.add(producers[name], ("a", 0), transactional_id=name)
            case "end" if name in producers:
                stage.end(producers[name], commit=random.random() < 0.5, transactional_id=name)
            case "markers":
                for prepared in list(machine_of(stage).prepared):
                    stage.write_markers(prepared.transactional_id)
            case "wait":
                stage.wait(random.randrange(10_000))
            case "lost" if name in producers:
                stage.holds = True
                stage.ask(AddPartitions(name, producers[name], frozenset({("b", 0)}), 0))
                stage.check_index()
                stage.holds = False
                stage.lose_sight(stored=random.random() < 0.5)
            case "fail over":
                stage.fail_over()
        stage.check_index()
