"""Bugs that are planted one at a time into the group coordinator and its runtime: each one line that somebody might write.

`python -m tests.simulation.planted groups` prints the number of seeds that each takes.
"""

from libs.coordinator.core.pending import Pending
from libs.coordinator.core.shard import Shard
from libs.coordinator.core.tables import Table
from libs.coordinator.core.timers import Timers
from services.group_coordinator.core.classic import commits as classic_commits
from services.group_coordinator.core.classic import joins, rebalances, syncs
from services.group_coordinator.core.classic.classic_groups import ClassicGroups
from services.group_coordinator.core.classic.group import Group as ClassicGroup
from services.group_coordinator.core.classic.group_decision import GroupDecision as ClassicGroupDecision
from services.group_coordinator.core.consumer import commits as consumer_commits
from services.group_coordinator.core.consumer import expiries, heartbeats, leaves, reconciliation
from services.group_coordinator.core.consumer.group import Group as ConsumerGroup
from services.group_coordinator.core.offsets import deletions, fetches
from services.group_coordinator.core.offsets.offset_table import OffsetTable
from services.storage.core.produce.ownership import Ownership
from tests.simulation.groups.run import run_one
from tests.simulation.planted import Mutant, PlantedBugs, lines

SEEDS = range(3000)

M = Mutant
MUTANTS: dict[str, Mutant] = {
    # the runtime of shards
    "decisions are answered before they are committed": M(Pending._reply, "if group is None:", "if True:"),
    "failed decisions are not reverted": M(Shard._back_to, "self._journal.revert_to(marks.journal)", "pass"),
    "an append that nobody answers is taken for refused": M(
        Shard.outcome_unknown,
        "self._become(Event.OUTCOME_UNKNOWN)",
        "self.state is State.SERVING or self._become(Event.OUTCOME_UNKNOWN)",
    ),
    "changes of tables are not noted": M(Table.__setitem__, "journal.note(self, key)", "pass"),
    # the classic protocol
    "a generation has the former one's number": M(
        rebalances.complete_join_phase, "facts.generation + 1 if", "max(facts.generation, 1) if"
    ),
    "a follower's sync is answered before the leader's": M(
        syncs.decide_sync,
        "return group_decision.parked(sync_park(group_decision.name, member.member_id), superseded)",
        "return group_decision.decision(group_decision.synced_reply(member.assignment))",
    ),
    "commits of any generation are let in": M(
        classic_commits.commit_error, "if generation != group.facts.generation:", "if False:"
    ),
    "an operator commits while members are there": M(
        classic_commits.commit_error, "generation < 0 and group.state is State.EMPTY", "generation < 0"
    ),
    "heartbeats do not tell of a rebalance": M(
        ClassicGroups.decide_heartbeat, "ErrorCode.REBALANCE_IN_PROGRESS if rebalances else 0", "0"
    ),
    "a static member's return is not logged": M(joins._replace_static, "_log_members(group_decision)", "pass"),
    "a new owner sets no session timers": M(
        ClassicGroups.timers, "yield group_decision.session_key(name, member.member_id), now_ms + lasts_ms", "pass"
    ),
    "the superseded request is forgotten": M(ClassicGroupDecision.parked, "self.wakes.insert(0, (key, to_former))", "pass"),
    "assignments are replayed in part": M(
        ClassicGroup.agree, "self.members[logged.member_id] = replace(member, assignment=logged.assignment)", "pass"
    ),
    # the consumer protocol
    "partitions are given before others gave them up": M(
        reconciliation._next, "if holder((topic_id, number)) in (None, member.member_id)", ""
    ),
    "a member that does not report its partitions owns none": M(reconciliation.owns_any, "return True", "return False"),
    "an old epoch may commit": M(consumer_commits.commit_error, "if epoch == member.epoch:", "if epoch <= member.epoch:"),
    "a silent member stays": M(expiries.on_session_timeout, "fence(group_decision, member, SESSION_OVER, reason)", "pass"),
    "a departed member's partitions go to nobody": M(leaves.fence, "group_decision.bump(reason)", "pass"),
    "a revoking member is not waited for": M(reconciliation._next, "if to_revoke and owns_any(owned, to_revoke):", "if False:"),
    "the epoch of a group follows its size": M(
        ConsumerGroup.apply,
        "self.facts = replace(self.facts, epoch=epoch,",
        "self.facts = replace(self.facts, epoch=len(self.members),",
    ),
    # offsets
    "fetches are answered from memory": M(fetches.decided, "groups=groups), current=True", "groups=groups)"),
    "the first offset stays": M(
        OffsetTable.put,
        "offsets[intern(committed.topic), committed.partition] = committed",
        "offsets.setdefault((intern(committed.topic), committed.partition), committed)",
    ),
    "tombstones are not replayed": M(OffsetTable.remove, "offsets.pop((removed.topic, removed.partition), None)", "pass"),
    "deletions are not logged": M(deletions.decide_deletion, ", list(removed))", ", [])"),
}
"""By name. Each is caught."""

GUARDED: dict[str, Mutant] = {
    "nobody is woken again when an append failed": M(
        Pending.drop, "reply.woken is not None and reply.woken[1].stays", "reply.woken is not None"
    ),
    "any claim may append": M(Ownership.refuse, "if writer != self.standing:", "if False:"),
    "a member that did not join stays": M(
        rebalances.complete_join_phase, "member.member_id not in group.joining and member.instance_id is None", "False"
    ),
    "any generation may sync": M(syncs.sync_error, "request.generation_id != facts.generation", "False"),
    "heartbeats of any generation are good": M(
        ClassicGroups.decide_heartbeat, "if request.generation_id != facts.generation:", "if False:"
    ),
    "any epoch is good": M(heartbeats._fenced, "if epoch == member.epoch:", "if True:"),
    "timers that failed do not come again": M(Timers.take_due, "self._notes.append((key, now_ms + RETRY_MS, None))", "pass"),
}
"""Not caught within 100 seeds: another line holds what this one drops, or it takes more than these runs do."""


def violations_of(seed: int) -> list[str]:
    return run_one(seed).violations


BUGS = PlantedBugs("groups", violations_of, lines(MUTANTS, SEEDS), lines(GUARDED, SEEDS))
