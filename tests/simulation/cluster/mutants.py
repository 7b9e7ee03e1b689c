"""Bugs that are planted one at a time into a whole cluster, to see whether a run catches them, and within how many seeds.

`python -m tests.simulation.planted cluster` prints the number of seeds that each takes.
"""

import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from libs.cluster.records import InSync, PartitionState
from libs.commitlog.files.page_cache import NonblockingLookup
from libs.commitlog.model.errors import DirectoryDamaged
from libs.commitlog.partition_log.log import Log
from libs.commitlog.producers.producer_state import FRESH, NO_OFFSET, ProducerState
from libs.coordinator.core.shard import Shard
from libs.coordinator.requests.client_requests import ClientRequests
from libs.coordinator.shards.driver import ShardDriver
from libs.rpc.client import client_connection
from libs.rpc.client.client_connection import ClientConnection
from libs.rpc.contracts.replication import Pulled, PulledFrom
from libs.rpc.messages.envelope import EMPTY, Frame, local_frame
from libs.rpc.server import server_connection
from libs.rpc.server.server_connection import ServerConnection
from libs.rpc.transport.frame_link import LinkEnd
from libs.runtime.identity import IncarnationDamaged
from services.controller.core.elections import leader_election
from services.controller.core.reassignment import reassignment
from services.controller.term.fenced_writer import FencedWriter
from services.gateway.appends import leader_appends
from services.gateway.appends.batch import apart
from services.gateway.appends.leader_appends import LeaderAppends
from services.gateway.core import resending
from services.gateway.core.connection_limits import ConnectionLimits
from services.gateway.core.connection_phase import ConnectionPhase
from services.gateway.core.request_budget import RequestBudget
from services.gateway.peers import file_descriptors
from services.gateway.peers.file_descriptors import FileKey, Files, OpenedFile
from services.gateway.shortcuts.produce_shortcut import RepeatedProduce
from services.group_coordinator.core.classic import commits as classic_commits
from services.group_coordinator.core.consumer import commits as consumer_commits
from services.group_coordinator.core.consumer import reconciliation
from services.group_coordinator.core.group_machine import GroupMachine
from services.group_coordinator.core.offsets.pending_offsets import PendingOffsets
from services.storage.cleanup.log_cleaner import LogCleaner
from services.storage.core.produce.ownership import Ownership
from services.storage.core.replication.follower import following
from services.storage.core.replication.leader.replica import Replica
from services.storage.partition.leader_checks import LeaderChecks
from services.storage.partition.sync_scheduler import SyncScheduler
from services.storage.produce.transaction_verification import TransactionVerification
from services.storage.replication.follower import applying
from services.storage.replication.follower.followed_partition import FollowedPartition
from services.transaction_coordinator.core.transaction_machine import TransactionMachine
from services.transaction_coordinator.markers.marker_writer import MarkerWriter
from tests.simulation.cluster import invariants
from tests.simulation.cluster.passed_files import SimulatedPassedFiles
from tests.simulation.cluster.seeds import run_one
from tests.simulation.disk import SimulatedDisk
from tests.simulation.planted import Bug, Mutant, Plant, PlantedBugs
from tests.support.transport_halves import has_nodes

FAULTY_S = 60.0
LINKED_BYTES = 4 << 20
"""No payload of these runs is longer."""


def leader_counts_itself_alone() -> Any:
    """acks=all is answered when the leader has it."""

    def recount(self: Replica) -> None:
        self._counted = [self._own] * self.min_in_sync
        self._only_member = False
        self.in_sync = len(self.isr.committed)
        self._advance_high_watermark()

    return patch.object(Replica, "_recount", recount)


def logs_never_part() -> Any:
    """A follower appends behind what its leader does not have."""

    def decide(answer: Pulled, own: following.LocalLog) -> following.Decision:
        return following.decide(replace(answer, diverging_epoch=-1), own)

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

    return patch.object(leader_election, "offline", offline)


def duplicates_are_stored() -> Any:
    """A batch that is sent again is stored again."""
    return patch.object(ProducerState, "check", lambda self, header: FRESH)


def written_counts_as_durable() -> Any:
    """A follower tells its leader of what it wrote as if it were synced."""
    original = FollowedPartition.pull_position

    def pull_position(self: FollowedPartition) -> PulledFrom:
        found = original(self)
        return replace(found, durable_offset=found.fetch_offset)

    return patch.object(FollowedPartition, "pull_position", pull_position)


@contextmanager
def unfenced_controller() -> Iterator[None]:
    """A deposed controller's writes are taken. That nothing proves office is not told: what comes of it is to be seen."""
    unguarded = Mutant(FencedWriter.commit, "[guard, *write.compares]", "[*write.compares]")
    with unguarded.planted(), patch.object(invariants, "proves_leadership", lambda compares: True):
        yield


@contextmanager
def whoever_writes_is_the_owner() -> Iterator[None]:
    """A leader stores what a deposed owner appends, wherever it lands; and who appended takes that for done."""
    with ExitStack() as planted:
        planted.enter_context(patch.object(Ownership, "refuse", lambda self, *_, **__: None))
        anywhere = Mutant(ShardDriver._appended, " and outcome.base_offset == offset:", ":")
        planted.enter_context(anywhere.planted())
        yield


def producers_expire_by_their_records() -> Any:
    """A producer is silent since the time that its client gave its last record."""

    def expire(state: ProducerState, now_ms: int, expiration_ms: int) -> int:
        closed = [each for each, entry in state.entries.items() if entry.transaction_first_offset == NO_OFFSET]
        expired = [each for each in closed if now_ms - state.entries[each].last_timestamp >= expiration_ms]
        for producer_id in expired:
            state.entries.remove(producer_id)
        return len(expired)

    return patch.object(ProducerState, "expire", expire)


def leaders_ask_nobody() -> Any:
    """A leader refuses records that are out of order without asking whether it was replaced."""
    return patch.object(LeaderChecks, "check", lambda self, partition, on_checked: on_checked(None))


class _ByNumberAlone(OrderedDict[FileKey, OpenedFile]):
    """The files of a node by their numbers, whichever of its processes has given them."""

    def get(self, key: FileKey, default: Any = None) -> Any:
        return super().get(_by_number(key), default)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, tuple) and super().__contains__(_by_number(key))

    def __setitem__(self, key: FileKey, file: OpenedFile) -> None:
        super().__setitem__(_by_number(key), file)

    def move_to_end(self, key: FileKey, last: bool = True) -> None:
        super().move_to_end(_by_number(key), last)


def _by_number(key: FileKey) -> FileKey:
    return key[0], 0, key[2]


@contextmanager
def files_outlive_their_node() -> Iterator[None]:
    """A gateway serves from descriptors that a former incarnation of the node passed."""
    with patch.object(file_descriptors, "OrderedDict", _ByNumberAlone), patch.object(Files, "forget", lambda *_: None):
        yield


def files_stay_open() -> Any:
    """A gateway forgets files, and leaves their descriptors open."""
    return patch.object(SimulatedPassedFiles, "close", lambda self, fd: None)


def nobody_is_awaited_after_a_takeover() -> Any:
    """A new owner never misses the members that it read of."""
    return patch.object(GroupMachine, "timers", lambda self, now_ms: ())


def new_owners_write_no_markers() -> Any:
    """A coordinator that takes over a shard forgets the transactions that it finds prepared."""
    return patch.object(TransactionMachine, "prepared", ())


@contextmanager
def links_use_their_memory_again() -> Iterator[None]:
    """A payload that goes by a link lies in one place, where the next one is put, too."""
    place = bytearray(LINKED_BYTES)

    def framed(*call: Any) -> tuple[Frame, int]:
        frame, size = local_frame(*call)
        length = len(frame.payload)
        if length:
            place[:length] = frame.payload
        return frame._replace(payload=memoryview(place)[:length] if length else EMPTY), size

    with patch.object(client_connection, "local_frame", framed), patch.object(server_connection, "local_frame", framed):
        yield


def line(where: Callable[..., Any], right: str, wrong: str) -> Plant:
    """One line that somebody might write."""
    return Mutant(where, right, wrong).planted


MUTANTS: dict[str, Bug] = {
    "the leader counts itself alone": Bug(leader_counts_itself_alone, range(1, 4)),
    "logs never diverge": Bug(logs_never_part, range(1, 11)),
    "nothing is synced": Bug(nothing_is_synced, range(1, 4)),
    "anybody leads": Bug(anybody_leads, range(1, 4)),
    "duplicates are stored": Bug(duplicates_are_stored, range(1, 11)),
    "written counts as durable": Bug(written_counts_as_durable, range(1, 4)),
    "a gateway sends again without a producer id, after a lost connection": Bug(
        line(resending.is_identified, "batch.identified", "True"),
        range(1, 21),
    ),
    "a gateway sends again without a producer id, after its leader was replaced": Bug(
        line(resending.is_identified_and_answered, "batch.identified and batch.answered", "batch.answered"),
        range(1, 21),
    ),
    "a gateway forgets its returned batches": Bug(
        line(LeaderAppends._fail, "elif result.error != OUT_OF_ORDER_SEQUENCE_NUMBER:", "elif False:"),
        range(1, 11),
    ),
    "all requests of a run get the offset of the first": Bug(
        line(RepeatedProduce.answer_all, "partition, *result)", "partition, *results[0])"),
        range(2, 9),
    ),
    "compaction passes the high watermark": Bug(
        line(LogCleaner._plan, "min(partition.high_watermark, partition.last_stable_offset)", "partition_log.log_end_offset"),
        range(1, 4),
    ),
    "old replicas go before the new ones are in sync": Bug(
        line(reassignment.finished, "is not ReassignmentStatus.REMOVING", "is ReassignmentStatus.NONE"),
        range(1, 4),
    ),
    "a commit is answered before it is committed": Bug(
        line(Shard._queue, "pending.take(group, decision, ticket)", "pending.take(None, decision, ticket)"),
        range(1, 4),
    ),
    "offsets are not loaded": Bug(
        line(GroupMachine.decode, "return record", "return None if key[1] < 2 else record"),
        range(1, 4),
    ),
    "a commit's generation is not looked at": Bug(
        line(classic_commits.commit_error, "if generation != group.facts.generation:", "if False:"),
        range(1, 4),
    ),
    "a commit's epoch is not looked at": Bug(
        line(consumer_commits.commit_error, "if epoch == member.epoch:", "if True:"),
        range(1, 4),
    ),
    "partitions of other members are assigned": Bug(
        line(reconciliation._next, " if holder((topic_id, number)) in (None, member.member_id)", ""),
        range(1, 4),
    ),
    "no member has to revoke first": Bug(
        line(reconciliation._next, "if to_revoke and owns_any(owned, to_revoke):", "if False:"),
        range(1, 4),
    ),
    "a deposed owner's append is taken": Bug(whoever_writes_is_the_owner, range(1, 11)),
    "a leader that was replaced unawares refuses what its successor would take": Bug(leaders_ask_nobody, range(1, 21)),
    "producers expire by their records": Bug(producers_expire_by_their_records, range(1, 11)),
    "commits do not wait for the topics of their gateway": Bug(
        line(ClientRequests.ask, "topics_revision > self._image_revision and self.reads_topics(event)", "False"),
        range(1, 11),
    ),
    "a gateway serves from a former incarnation's files": Bug(files_outlive_their_node, range(1, 11)),
    "descriptors that were cut off are used": Bug(
        line(
            ClientConnection.descriptors_received,
            "self._descriptors.append(fds)",
            "self._descriptors.append([0] if fds is None else fds)",
        ),
        range(1, 4),
    ),
    "lookups wait for the disk on the event loop": Bug(
        line(NonblockingLookup.needs, "raise NotInPageCache(ColdRead(path, key, work))", "return work()"), range(1, 4)
    ),
    "client connections have no limit": Bug(
        line(ConnectionLimits.refusal, "if self._all.connections + self.delayed >= self.places:", "if False:"),
        range(1, 4),
    ),
    "a connection stays paused": Bug(
        line(ConnectionPhase.free, "if before and not self.held", "if False"),
        range(1, 4),
    ),
    "requests have no budget": Bug(
        line(RequestBudget.ask, "self.used + needed - before <= (self.bytes_max if is_little else self.short_at)", "True"),
        range(1, 4),
    ),
    "an append amid a round is owed no sync": Bug(
        line(
            SyncScheduler.appended,
            "states.dirty[partition] = None",
            "states.dirty.update({} if states.under_way else {partition: None})",
        ),
        range(1, 4),
    ),
    "files stay open": Bug(files_stay_open, range(1, 11)),
    "each shard has a time of its own": Bug(
        line(ShardDriver.__init__, "self._time = time", "self._time = SteadyTime(clock, self._loop.time)"),
        range(1, 11),
    ),
    "nobody is awaited after a takeover": Bug(nobody_is_awaited_after_a_takeover, range(1, 11)),
    "a leader stores batches of transactions unasked": Bug(
        line(TransactionVerification.is_granted, "self._granted ==", "True or"),
        range(1, 4),
    ),
    "one partition gets no marker": Bug(
        line(MarkerWriter.write, "set(prepared.partitions)", "set(sorted(prepared.partitions)[1:])"),
        range(1, 4),
    ),
    "a new owner writes no markers": Bug(new_owners_write_no_markers, range(1, 11)),
    "open transactions are stable": Bug(
        line(Log.last_stable_offset, "self.producers.transactions.first_unstable(high_watermark)", "None"),
        range(1, 4),
    ),
    "fetches list no aborted transactions": Bug(
        line(Log.aborted_transactions, "if not self.aborted.has_any:", "if True:"),
        range(1, 4),
    ),
    "offsets of aborted transactions take effect": Bug(
        line(PendingOffsets.end, "if not ended.commits:", "if False:"),
        range(1, 4),
    ),
    "a link uses its memory again": Bug(links_use_their_memory_again, range(2, 4)),
    "a link delivers the last frame first": Bug(
        line(LinkEnd.take, "self.frames.popleft()", "self.frames.pop()"),
        range(2, 4),
    ),
    "an answer by a link gives no budget back": Bug(
        line(
            ServerConnection.answer,
            "self._answered(call)",
            "self._answered(call) if self._link is None else self.pending.pop(call.request_id)",
        ),
        range(2, 4),
    ),
}
"""Each with the seeds within which it is caught: that many of its half (`planted_on_nodes`), from the first one on."""

LINKS_ALONE = (
    "a link uses its memory again",
    "a link delivers the last frame first",
    "an answer by a link gives no budget back",
)
SOCKETS_ALONE = ("a gateway serves from a former incarnation's files",)
"""A gateway that dies with its storage node has no file of the former one."""

GUARDED: dict[str, Bug] = {
    "an unfenced controller": Bug(unfenced_controller, range(1, 28)),
    "a run is answered as stored, though a batch of it was refused": Bug(
        line(leader_appends.all_stored, "None if None in results else results", "[each or (0, -1, 0) for each in results]"),
        range(2, 21),
    ),
    "a run that is split is sent on in the reverse order": Bug(
        line(apart, "run.split()", "list(run.split())[::-1]"),
        range(2, 21),
    ),
}
"""Each with seeds that do not catch it. A write also compares what it changes with what was read. Few runs are in flight when a
leader refuses: `tests/gateway/test_produce_runs.py` catches what is wrong with theirs."""


def violations_of(seed: int, faulty_s: float = FAULTY_S) -> list[str]:
    try:
        return run_one(seed, faulty_s=faulty_s, until_caught=True).violations
    except (IncarnationDamaged, DirectoryDamaged) as refusal:  # of a process, to start with the files that it finds
        return [f"a process does not start: {refusal}"]


def planted_on_nodes(name: str) -> bool:
    """A fixed half of the bugs, by a bit of their names' checksums that divides them evenly. Some have a half that they need."""
    return name in LINKS_ALONE or (name not in SOCKETS_ALONE and zlib.crc32(name.encode()) >> 5 & 1 == 1)


def in_its_half(name: str, bug: Bug) -> Bug:
    """The bug with about as many seeds, all of them of its half."""
    first = bug.seeds[0]
    wider = range(first, first + 2 * len(bug.seeds) + 1)
    return bug._replace(seeds=[seed for seed in wider if has_nodes(seed) == planted_on_nodes(name)])


BUGS = PlantedBugs(
    "cluster",
    violations_of,
    {name: in_its_half(name, bug) for name, bug in MUTANTS.items()},
    {name: in_its_half(name, bug) for name, bug in GUARDED.items()},
)
