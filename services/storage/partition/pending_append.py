"""One Append call and the answers that it still waits for. It is answered once, when the last of its partitions is settled."""

from libs.rpc.call import Call
from libs.rpc.envelope import EMPTY
from services.storage.append_messages import Answer


class AppendRequest:
    """The last `settle` answers the call."""

    __slots__ = ("_answers", "_call", "_waiting", "acks", "deadline", "received_at")

    def __init__(self, call: Call, acks: int, received_at: float, timeout_s: float, partitions: int) -> None:
        self.acks = acks
        self.received_at = received_at
        self.deadline = received_at + timeout_s
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
    def gone(self) -> bool:
        """The caller hung up, or gave up: nobody would hear an answer."""
        return self._call.cancelled

    def written(self) -> None:
        """The bytes are where they belong: the receive buffer may be used again while this waits to be committed."""
        self._call.payload = EMPTY


class Staged:
    """An append that has its offsets and waits: for the write, then perhaps for the high watermark to reach `end_offset`."""

    __slots__ = ("_answer", "appended_at", "end_offset", "request", "slot")

    def __init__(self, request: AppendRequest, slot: int, end_offset: int, answer: Answer) -> None:
        self.request = request
        self.slot = slot
        self.end_offset = end_offset
        self.appended_at = 0.0  # in loop time, once it waits for the high watermark
        self._answer = answer

    def succeed(self) -> None:
        self.request.settle(self.slot, self._answer)

    def refuse(self, answer: Answer) -> None:
        self.request.settle(self.slot, answer)
