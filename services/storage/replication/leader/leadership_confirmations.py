"""Confirmations that this node still leads, before an answer that a successor's records would make wrong.

A leader that was replaced without knowing it lacks the records of its successor. Its log end is too low then, and what it does
not find may exist. As in Raft's ReadIndex, the leader asks its followers first. Only a member of the maximal ISR can be elected,
and a member that leads, or follows another leader, no longer pulls in this epoch. So if each of them pulls in it after the
question was asked, no successor had committed anything before the question. A leader that is alone in its ISR cannot be replaced,
and asks nobody. An election that may lose records is another matter: it loses some of what was answered here.

That takes a round trip, and goes on while the store is away. If followers do not answer soon, the store is asked instead
(`services/storage/partition/leader_checks.py`).
"""

import asyncio
from collections.abc import Collection, Mapping
from functools import partial

from libs.wire.errors import ErrorCode
from services.storage.core.produce.admission import Refusal
from services.storage.core.replication.leader.pull_sessions import Key, PullSession
from services.storage.partition.leader_checks import LeaderChecks, OnConfirmed
from services.storage.partition.partition import Partition
from services.storage.replication.leader.pulls import Pulls

NOT_LEADER_OR_FOLLOWER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
FOLLOWERS_S_MAX = 0.2
"""The time for followers to answer. They need a round trip, but may be applying a large answer."""


class _Question:
    """The partitions of one request that are not confirmed yet. Each has the leader epoch in which its answer was made, and the
    followers that had to be asked then. Whoever joins the ISR later had not led before the question."""

    __slots__ = ("on_confirmed", "refusals", "round", "timer", "unconfirmed")

    def __init__(self, unconfirmed: dict[Partition, tuple[int, list[int]]], on_confirmed: OnConfirmed) -> None:
        self.unconfirmed = unconfirmed
        self.on_confirmed = on_confirmed
        self.refusals: dict[Key, Refusal] = {}
        self.round = 0
        self.timer: asyncio.TimerHandle | None = None


class LeadershipConfirmations:
    def __init__(self, pulls: Pulls, checks: LeaderChecks) -> None:
        self._pulls = pulls
        self._checks = checks
        self._loop = asyncio.get_running_loop()
        self._open: dict[_Question, None] = {}

    def confirm(self, partitions: Collection[Partition], on_confirmed: OnConfirmed) -> None:
        """Confirms partitions that this node leads as far as it knows. `on_confirmed` is called with the refusals of all others:
        before this returns if there is nobody to ask, else later, unless the node stops before."""
        unconfirmed = {
            partition: (partition.leader_epoch, followers)
            for partition in partitions
            if (followers := partition.replica.maximal_followers)
        }
        question = _Question(unconfirmed, on_confirmed)
        if not question.unconfirmed:
            on_confirmed({})
            return
        question.round = self._pulls.begin_round([partition.key for partition in question.unconfirmed])
        question.timer = self._loop.call_later(FOLLOWERS_S_MAX, self._ask_store, question)
        self._open[question] = None

    async def confirmed(self, partitions: Collection[Partition]) -> Mapping[Key, Refusal]:
        """The refusals of partitions that are not confirmed."""
        refusals: asyncio.Future[Mapping[Key, Refusal]] = self._loop.create_future()
        self.confirm(partitions, partial(_set, refusals))
        return await refusals

    def heard(self, session: PullSession) -> None:
        """Takes a follower's answer: its session has the round, and its positions."""
        for question in list(self._open):
            if question.round <= session.round:
                for each, (epoch, followers) in list(question.unconfirmed.items()):
                    if session.node_id in followers and self._all_follow(each, epoch, followers, question.round):
                        del question.unconfirmed[each]
                self._end_if_answered(question)

    def close(self) -> None:
        for question in list(self._open):
            for each, (epoch, _) in question.unconfirmed.items():
                question.refusals[each.key] = _unconfirmed(epoch)
            question.unconfirmed.clear()
            self._end_if_answered(question)

    def _all_follow(self, each: Partition, epoch: int, followers: list[int], since_round: int) -> bool:
        replica = each.replica
        if not replica.leading or replica.leader_epoch != epoch:
            return False
        return self._pulls.all_follow(each.key, followers, epoch, since_round=since_round)

    def _ask_store(self, question: _Question) -> None:
        del self._open[question]  # the store answers within its own time, whatever followers say
        for each, (epoch, _) in list(question.unconfirmed.items()):
            if each.leading and each.leader_epoch == epoch:
                self._checks.check(each, partial(self._checked, question, each))
            else:
                self._checked(question, each, _unconfirmed(epoch))

    def _checked(self, question: _Question, each: Partition, refusal: Refusal | None) -> None:
        del question.unconfirmed[each]
        if refusal is not None:
            question.refusals[each.key] = refusal
        self._end_if_answered(question)

    def _end_if_answered(self, question: _Question) -> None:
        if not question.unconfirmed:
            self._open.pop(question, None)
            if question.timer is not None:
                question.timer.cancel()
            question.on_confirmed(question.refusals)


def _unconfirmed(leader_epoch: int) -> Refusal:
    return Refusal(NOT_LEADER_OR_FOLLOWER, None, -1, leader_epoch)


def _set(future: "asyncio.Future[Mapping[Key, Refusal]]", refusals: Mapping[Key, Refusal]) -> None:
    if not future.done():
        future.set_result(refusals)
