"""Effects: what a replica notes, and the one order in which they are carried out."""

from functools import partial

from libs.cluster.records import InSync
from services.storage.core.effects import (
    FOLLOWER_MAY_JOIN,
    HIGH_WATERMARK_ROSE,
    ISR_CHANGED,
    LEAST_LOG_START_MOVED,
    LOG_START_ROSE,
    EffectHandlers,
    in_order,
)
from services.storage.core.replication.leader.replica import Replica
from services.storage.core.replication.leadership import Lead


class Session:
    alive_at = 0.0


def leading(*isr: int) -> Replica:
    replica = Replica(1, log_end=0, durable=0, high_watermark=0, synced=False)
    replica.become_leader(Lead(5, tuple(InSync(node, 10) for node in isr), 0, (1, 2, 3), 10))
    replica.take_effects()
    return replica


def carried_out(effects: int) -> list[str]:
    done: list[str] = []
    handlers = EffectHandlers(*[partial(lambda name, _: done.append(name), name) for name in EffectHandlers._fields])
    for flags, carry_out in in_order(handlers):
        if effects & flags:
            carry_out("partition")
    return done


def test_producers_are_answered_before_consumers_see_their_records_and_followers_hear_after_both() -> None:
    assert carried_out(HIGH_WATERMARK_ROSE) == ["answer_produces", "wake_fetches", "notify_pulls"]


def test_all_effects_are_carried_out_once_and_in_the_declared_order() -> None:
    everything = HIGH_WATERMARK_ROSE | LOG_START_ROSE | LEAST_LOG_START_MOVED | FOLLOWER_MAY_JOIN | ISR_CHANGED
    assert carried_out(everything) == list(EffectHandlers._fields)


def test_a_later_log_start_is_an_effect_for_followers_and_for_the_leader() -> None:
    assert carried_out(LOG_START_ROSE) == ["notify_pulls", "report_log_start"]


def test_a_replica_calls_for_the_first_effect_only_until_they_are_taken() -> None:
    replica, called = leading(1), []
    replica.on_effects = lambda: called.append(replica.high_watermark)
    replica.appended(3)
    replica.appended(5)
    assert called == [3]
    assert replica.take_effects() == HIGH_WATERMARK_ROSE
    assert replica.take_effects() == 0
    replica.appended(6)
    assert called == [3, 6]


def test_a_follower_that_has_caught_up_from_outside_the_isr_is_an_effect() -> None:
    replica = leading(1)
    replica.appended(5)
    replica.take_effects()
    replica.reported(2, 10, log_end=4, durable=4, now=0.0, contact=Session())
    assert replica.take_effects() == 0
    replica.made_durable(2, 10, 5, 0.0)
    assert replica.take_effects() == FOLLOWER_MAY_JOIN


def test_a_changed_isr_is_an_effect_by_answer_or_image_and_the_isr_at_the_start_of_an_epoch_is_none() -> None:
    replica = Replica(1, log_end=0, durable=0, high_watermark=0, synced=False)

    def told_by_the_image(epoch: int, partition_epoch: int, *isr: int) -> bool:
        replica.become_leader(Lead(epoch, tuple(InSync(node, 10) for node in isr), partition_epoch, (1, 2, 3), 10))
        return bool(replica.take_effects() & ISR_CHANGED)

    assert not told_by_the_image(5, 0, 1, 2)
    assert told_by_the_image(5, 1, 1, 2, 3)
    replica.reported_isr = replica.isr.committed
    replica.isr_shown(2, [InSync(1, 10)])
    assert replica.take_effects() & ISR_CHANGED
    assert not told_by_the_image(6, 3, 1, 2)


def test_a_follower_that_holds_what_was_deleted_may_not_join() -> None:
    replica = leading(1)
    replica.appended(5)
    replica.take_effects()
    replica.reported(2, 10, log_end=5, durable=5, now=0.0, contact=Session(), log_start=0, own_start=3)
    assert replica.take_effects() == 0


def test_the_least_log_start_is_an_effect_only_while_it_is_watched() -> None:
    replica = leading(1, 2)
    replica.reported(2, 10, log_end=0, durable=0, now=0.0, contact=Session(), log_start=0)
    assert not replica.take_effects() & LEAST_LOG_START_MOVED
    replica.start_watchers.append(lambda: None)
    replica.made_durable(2, 10, 0, 0.0, log_start=1)
    assert replica.take_effects() & LEAST_LOG_START_MOVED
