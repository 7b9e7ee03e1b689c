"""One Append call, and the answers of its partitions. It is answered once, when the last of them is settled."""

from libs.rpc.messages.envelope import EMPTY
from libs.rpc.server.call import Call
from services.storage.partition.append_answers import Answer


class AppendCall:
    """One Append call. It is answered when its last partition is settled."""

    __slots__ = ("_answers", "_call", "_waiting", "acks", "deadline", "produce_version", "received_at", "transactional_id")

    def __init__(
        self,
        call: Call,
        acks: int,
        received_at: float,
        timeout_s: float,
        partitions: int,
        transactional_id: str | None = None,
        produce_version: int = 0,
    ) -> None:
        self.acks = acks
        self.received_at = received_at
        self.deadline = received_at + timeout_s
        self.transactional_id = transactional_id
        self.produce_version = produce_version
        self._call = call
        self._answers: list[Answer | None] = [None] * partitions
        self._waiting = partitions

    def settle(self, slot: int, answer: Answer) -> None:
        assert self._answers[slot] is None, "a partition is answered once"
        self._answers[slot] = answer
        self._waiting -= 1
        if not self._waiting:
            self._call.reply([self._answers])

    @property
    def cancelled(self) -> bool:
        """Whether the caller hung up or gave up, so that no answer would be heard."""
        return self._call.cancelled

    def written(self) -> None:
        """Frees the receive buffer: the bytes are in the log, and only the commit is awaited."""
        self._call.payload = EMPTY


class Staged:
    """An append with offsets. It waits for the write, then perhaps for the high watermark to reach `end_offset`."""

    __slots__ = ("_answer", "appended_at", "end_offset", "request", "slot")

    def __init__(self, request: AppendCall, slot: int, end_offset: int, answer: Answer) -> None:
        self.request = request
        self.slot = slot
        self.end_offset = end_offset
        self.appended_at = 0.0  # loop time of the write, once it waits for the high watermark
        self._answer = answer

    def succeed(self) -> None:
        self.request.settle(self.slot, self._answer)

    def refuse(self, answer: Answer) -> None:
        self.request.settle(self.slot, answer)
