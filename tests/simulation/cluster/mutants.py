"""Bugs that are planted one at a time into a whole cluster, to see whether a run catches them, and within how many seeds.

`python -m tests.simulation.cluster.mutants` tells for each; `NAME…` for those alone.
"""

import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from libs.cluster.records import InSync, PartitionState
from libs.commitlog.errors import DirectoryDamaged
from libs.commitlog.producers import FRESH, ProducerState
from libs.rpc.contracts.replication import Pulled, PulledFrom
from libs.runtime.shards.driver import ShardDriver
from libs.runtime.shards.shard import Shard
from services.controller.core import elections, reassignment
from services.controller.fencing import FencedWriter
from services.gateway.appends import Appends
from services.group_coordinator.core.classic import commits as classic_commits
from services.group_coordinator.core.consumer import commits as consumer_commits
from services.group_coordinator.core.consumer import reconciliation
from services.group_coordinator.core.machine import GroupMachine
from services.storage.cleaning import Cleaning
from services.storage.core import following as deciding
from services.storage.core.ownership import Ownership
from services.storage.core.replica import Replica
from services.storage.following import applying
from services.storage.following.followed import Followed
from services.storage.leader_checks import LeaderChecks
from tests.simulation.cluster import watcher
from tests.simulation.cluster.many import run_one
from tests.simulation.cluster.run import Report
from tests.simulation.disk import SimulatedDisk
from tests.simulation.planted import Mutant

FAULTY_S = 60.0


def leader_counts_itself_alone() -> Any:
    """acks=all is answered when the leader has it."""

    def recount(self: Replica) -> bool:
        self._counted = [self._own] * self.min_in_sync
        self._alone = False
        self.in_sync = len(self.isr.committed)
        return self._advance()

    return patch.object(Replica, "_recount", recount)


def logs_never_part() -> Any:
    """A follower appends behind what its leader does not have."""

    def decide(answer: Pulled, own: deciding.Own) -> deciding.Decision:
        return deciding.decide(replace(answer, diverging_epoch=-1), own)

    return patch.object(applying, "decide", decide)


@contextmanager
def nothing_is_synced() -> Iterator[None]:
    """Storage forgets the sync, and counts what it wrote as durable."""
    with (
        patch.object(SimulatedDisk, "fdatasync", lambda self, fd: None),
        patch.object(SimulatedDisk, "sync_all", lambda self, path: None),
    ):
        yield


def anybody_leads() -> Any:
    """An election takes the first replica that lives, in sync or not."""

    def offline(state: PartitionState, live: Mapping[int, Any]) -> InSync | None:
        found = [InSync(one.node_id, live[one.node_id].incarnation) for one in state.replicas if one.node_id in live]
        return found[0] if found else None

    return patch.object(elections, "offline", offline)


def duplicates_are_stored() -> Any:
    """A batch that is sent again is stored again."""
    return patch.object(ProducerState, "check", lambda self, header: FRESH)


def written_counts_as_durable() -> Any:
    """A follower tells its leader of what it wrote as if it were synced."""
    original = Followed.standing

    def standing(self: Followed) -> PulledFrom:
        found = original(self)
        return replace(found, durable_offset=found.fetch_offset)

    return patch.object(Followed, "standing", standing)


@contextmanager
def unfenced_controller() -> Iterator[None]:
    """A deposed controller's writes are taken. That nothing proves office is not told: what comes of it is to be seen."""
    unguarded = Mutant(FencedWriter.commit, "[guard, *write.compares]", "[*write.compares]")
    with unguarded.planted(), patch.object(watcher, "proves_office", lambda compares: True):
        yield


@contextmanager
def whoever_writes_is_the_owner() -> Iterator[None]:
    """A leader stores what a deposed owner appends, wherever it lands; and who appended takes that for done."""
    with ExitStack() as planted:
        planted.enter_context(patch.object(Ownership, "refuse", lambda self, *_, **__: None))
        anywhere = Mutant(ShardDriver._appended, " and outcome.base_offset == offset:", ":")
        planted.enter_context(anywhere.planted())
        yield


def leaders_ask_nobody() -> Any:
    """What is out of order in a leader's log is refused, and it may have been replaced without having heard so."""
    return patch.object(LeaderChecks, "ask", lambda self, hosted, then: then(None))


def nobody_is_awaited_after_a_takeover() -> Any:
    """A new owner never misses the members that it read of."""
    return patch.object(GroupMachine, "timers", lambda self, now_ms: ())


def line(where: Callable[..., Any], right: str, wrong: str) -> Callable[[], AbstractContextManager[Any]]:
    """One line that somebody might write."""
    return Mutant(where, right, wrong).planted


MUTANTS: dict[str, tuple[Callable[[], AbstractContextManager[Any]], tuple[int, ...]]] = {
    "the leader counts itself alone": (leader_counts_itself_alone, (1, 2, 3)),
    "logs never part": (logs_never_part, tuple(range(1, 11))),
    "nothing is synced": (nothing_is_synced, (1, 2, 3)),
    "anybody leads": (anybody_leads, (1, 2, 3)),
    "duplicates are stored": (duplicates_are_stored, (1, 2, 3)),
    "written counts as durable": (written_counts_as_durable, (1, 2, 3)),
    "a gateway sends again without a producer id, after a lost connection": (
        line(Appends._failed, "elif not sent or batch.producer is not None:", "elif True:"),
        tuple(range(1, 21)),
    ),
    "a gateway sends again without a producer id, after its leader was replaced": (
        line(Appends._take_back, "batch.producer is not None and batch.request.acks", "batch.request.acks"),
        tuple(range(1, 21)),
    ),
    "a gateway forgets what it has given back": (
        line(Appends._fail, "elif result.error != OUT_OF_ORDER:", "elif False:"),
        tuple(range(1, 11)),
    ),
    "compaction passes the high watermark": (
        line(Cleaning._plan, "min(hosted.high_watermark, hosted.last_stable_offset)", "found.log_end_offset"),
        (1, 2, 3),
    ),
    "old replicas go before the new ones are in sync": (
        line(reassignment.finished, "is not ReassignmentStatus.REMOVING", "is ReassignmentStatus.NONE"),
        (1, 2, 3),
    ),
    "a commit is answered before it is committed": (
        line(Shard._queue, "pending.take(group, decision, ticket)", "pending.take(None, decision, ticket)"),
        (1, 2, 3),
    ),
    "offsets are not loaded": (
        line(GroupMachine.decode, "record_codec.decode(key, value)", "None if key[1] < 2 else record_codec.decode(key, value)"),
        (1, 2, 3),
    ),
    "a commit's generation is not looked at": (
        line(classic_commits.commit_error, "if generation != group.facts.generation:", "if False:"),
        (1, 2, 3),
    ),
    "a commit's epoch is not looked at": (
        line(consumer_commits.commit_error, "if epoch == member.epoch:", "if True:"),
        (1, 2, 3),
    ),
    "what others hold is given": (
        line(reconciliation._next, " if holder((topic_id, number)) in (None, member.member_id)", ""),
        (1, 2, 3),
    ),
    "nobody has to give up first": (
        line(reconciliation._next, "if to_give_up and owns_any(owned, to_give_up):", "if False:"),
        (1, 2, 3),
    ),
    "a deposed owner's append is taken": (whoever_writes_is_the_owner, tuple(range(1, 11))),
    "a leader that was replaced unawares refuses what its successor would take": (leaders_ask_nobody, tuple(range(1, 21))),
    "nobody is awaited after a takeover": (nobody_is_awaited_after_a_takeover, tuple(range(1, 11))),
}
"""Each with the seeds within which it is caught."""

GUARDED: dict[str, tuple[Callable[[], AbstractContextManager[Any]], tuple[int, ...]]] = {
    "an unfenced controller": (unfenced_controller, tuple(range(1, 28))),
}
"""Each with seeds that do not catch it. A write also compares what it changes with what was read."""


def seeds_to_catch(name: str, *, faulty_s: float = FAULTY_S, most: int = 0) -> tuple[int, Report | None]:
    """How many seeds it took, and what the last one found; more than there are, and None, if none did."""
    plant, seeds = {**MUTANTS, **GUARDED}[name]
    seeds = tuple(range(1, most + 1)) or seeds
    for count, seed in enumerate(seeds, 1):
        with plant():
            try:
                report = run_one(seed, faulty_s=faulty_s, until_caught=True)
            except (SystemExit, DirectoryDamaged) as refusal:  # of a process, to start with the files that it finds
                report = Report(seed, violations=[f"a process does not start: {refusal}"])
        if report.violations:
            return count, report
    return len(seeds) + 1, None


def main(names: list[str]) -> None:
    logging.disable(logging.NOTSET)
    for name in names or MUTANTS:
        began = time.process_time()
        count, report = seeds_to_catch(name, most=10)
        found = report.violations[0][:160] if report is not None else "NOT CAUGHT"
        print(f"{name}: {count} seeds, {time.process_time() - began:.0f} s: {found}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
