"""One Append call and the answers that it still waits for. It is answered once, when the last of its partitions is settled."""

from libs.rpc.call import Call
from libs.rpc.envelope import EMPTY

Answer = list[object]
"""An `Appended`, in the field order of the contract."""


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


def appended(base_offset: int, log_append_time_ms: int, log_start_offset: int) -> Answer:
    return [0, base_offset, log_append_time_ms, log_start_offset, None, (), -1, -1]


def refused(
    error: int,
    message: str | None = None,
    *,
    leader: int = -1,
    leader_epoch: int = -1,
    log_start_offset: int = -1,
    record_errors: tuple[tuple[int, str], ...] = (),
) -> Answer:
    return [error, -1, -1, log_start_offset, message, record_errors, leader, leader_epoch]
