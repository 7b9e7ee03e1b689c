"""Consumers of the protocol of KIP-848: say what they own, and take a while to give up what they are told to."""

from typing import Any

from libs.wire.errors import ErrorCode
from libs.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.group_coordinator.conversion.clients import Partition, by_topic
from tests.group_coordinator.named_topics import given, topic_id
from tests.simulation.groups.network import Call
from tests.simulation.groups.reading import GROUP, REBALANCE_MS, RETRY_MS, SESSION_MS, Client, World

FENCED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)


class Consumer(Client):
    kind = "consumer"

    def __init__(self, world: World, number: int, instance: str | None = None) -> None:
        # Nothing in the protocol tells a heartbeat that was overtaken from the next one: clients do not let that happen.
        super().__init__(world, number, instance, in_order=True)
        self.former: list[tuple[str, int]] = []
        self.forget()

    def forget(self) -> None:
        super().forget()
        self.epoch = 0
        self.target: frozenset[Partition] | None = None
        self.said: frozenset[Partition] | None = None
        """What it said that it owns, as far as it knows."""
        self.unsure = False
        """An answer was lost: it says all, and is told all."""
        self.due_ms: float | None = None
        """Until when it has to give up what it was told to."""

    @property
    def member_id(self) -> str:
        return f"c{self.number}-{self.life}-{self.link.name}"

    @property
    def membership(self) -> tuple[str, int]:
        return self.member_id, self.epoch

    @property
    def reads(self) -> frozenset[Partition]:
        if self.due_ms is not None and self.simulator.now_ms >= self.due_ms:
            return frozenset()
        return super().reads

    @property
    def is_idle(self) -> bool:
        return self.epoch > 0 and self.target is None and not self.unsure

    def lease_over(self) -> None:
        self._lose()
        if self.waits is not None:  # it was asked by whom it is no longer: what it answers is of no use
            self.waits = None
            self._unheard()

    def lose_connection(self) -> None:
        self._unheard()
        super().lose_connection()

    def _unheard(self) -> None:
        """An answer was lost: it may have taken back what earlier answers said."""
        self.unsure, self.target = True, None

    def _lose(self) -> None:
        if self.epoch > 0:
            self.former.append((self.member_id, self.epoch))
        self.own(frozenset())
        self.target, self.due_ms, self.epoch, self.said = None, None, 0, None

    def beat(self) -> None:
        if self.due_ms is not None and self.simulator.now_ms >= self.due_ms:
            self._lose()
        if self.waits is not None:
            return
        if self.target is not None and self.random.random() < 0.8:
            self._take()
        if self.target is not None:  # it is asked about what it never took: only what it says in full answers that
            self.unsure = True
        says_all = self.unsure or self.epoch == 0
        owned = None if self.said == self.owned and not says_all else _said(self.owned)
        self.said = self.owned
        request = ConsumerGroupHeartbeatRequest(
            GROUP,
            self.member_id,
            self.epoch,
            self.instance,
            None,
            REBALANCE_MS if says_all else -1,
            ["t"] if says_all else None,
            None,
            None,
            [] if self.epoch == 0 else owned,
        )
        self.waits = self.ask(request, 1, self._hears)

    def _take(self) -> None:
        """Gives up, and takes."""
        if self.target is not None:
            target, self.target, self.due_ms = self.target, None, None
            self.own(target)

    def _hears(self, call: Call, error: int, reply: Any) -> None:
        if self.waits is not call:
            self._unheard()
            return
        self.waits = None
        if error in (*FENCED, ErrorCode.GROUP_ID_NOT_FOUND):
            self._lose()
        elif error in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID):
            self._lose()
            if error == ErrorCode.FENCED_INSTANCE_ID:
                self.life += 1
                self.runs = False
                self.start()
                return
        elif error:
            self._unheard()
        if error:
            self._later(RETRY_MS, self.beat)
            return
        self._renew(call, reply)

    def _renew(self, call: Call, reply: Any) -> None:
        if self.epoch not in (0, reply.member_epoch):
            self.former.append((self.member_id, self.epoch))
        self.unsure = False
        self.epoch = reply.member_epoch
        since_ms, self.lease_ms = self.lease_ms - SESSION_MS, call.sent_ms + SESSION_MS
        assigned = given(reply)
        if assigned is None:
            return
        self.target = frozenset((topic, number) for topic, numbers in assigned.items() for number in numbers)
        if self.owned - self.target:
            due_ms = since_ms + REBALANCE_MS  # it was told so with an answer that was lost, perhaps
            self.due_ms = due_ms if self.due_ms is None else min(self.due_ms, due_ms)
        if self.target == self.owned:
            self._take()
        else:
            self._later(self.random.random() * 300, self._step)

    def _step(self) -> None:
        if self.waits is None:
            self._take()
            self.beat()

    def leave(self) -> None:
        if self.epoch > 0:
            epoch = -1 if self.instance is None or self.random.random() < 0.3 else -2
            self.ask(ConsumerGroupHeartbeatRequest(GROUP, self.member_id, epoch, self.instance), 1, self._committed)

    def crash(self) -> None:
        if self.epoch > 0:
            self.former.append((self.member_id, self.epoch))
        super().crash()


def _said(owned: frozenset[Partition]) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id(topic), numbers) for topic, numbers in by_topic(owned).items()]
