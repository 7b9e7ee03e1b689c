"""librdkafka producers that send at a steady pace through whatever happens, and record each answer."""

import threading
import time
from collections.abc import Callable, Mapping

from confluent_kafka import KafkaError, Message, Producer

from tests.history.model import Op, Send
from tests.history.outcomes import outcome_of_send
from tests.system.chaos.recorder import Recorder, key_of, payload_of

MESSAGE_TIMEOUT_S = 90
SETTINGS: Mapping[str, object] = {
    "acks": "all",
    "linger.ms": 1,
    "queue.buffering.max.messages": 20_000,
    "message.timeout.ms": MESSAGE_TIMEOUT_S * 1000,
    "log_level": 2,
}


class PacedProducer:
    """A producer in a thread of its own. It sends round robin; what the pace asks for while nothing is answered piles up.

    A fatal error ends the client, as its documentation asks for; the next one is another process to the judge.
    """

    def __init__(
        self, recorder: Recorder, bootstrap: str, topic: str, partitions: int, *, per_second: int, idempotent: bool = True
    ) -> None:
        self._recorder, self._bootstrap = recorder, bootstrap
        self.topic, self.partitions = topic, partitions
        self._per_second, self._idempotent = per_second, idempotent
        self._stopping = threading.Event()
        self._fatal = False
        self.process = -1
        self._producer = self._made()
        self._thread = threading.Thread(target=self._work, name=f"produces to {topic}")

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> int:
        """Sends no more, waits for all answers; returns how many records have none."""
        self._stopping.set()
        self._thread.join()
        return self._producer.flush(MESSAGE_TIMEOUT_S + 5)

    def close(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._producer.purge()
        self._producer.flush(5)
        self._producer.close()

    def _made(self) -> Producer:
        self.process = self._recorder.process(plain=not self._idempotent)
        self._fatal = False
        of_kind = {"enable.idempotence": True} if self._idempotent else {"enable.idempotence": False, "max.in.flight": 5}
        return Producer({**SETTINGS, **of_kind, "bootstrap.servers": self._bootstrap, "error_cb": self._heard})

    def _work(self) -> None:
        begun, sent = time.monotonic(), 0
        while not self._stopping.is_set():
            due = int((time.monotonic() - begun) * self._per_second)
            while sent < due and not self._fatal:
                try:
                    self._send(sent % self.partitions)
                except BufferError:
                    break
                sent += 1
            self._producer.poll(0.002)
            if self._fatal:
                self._producer.purge()
                self._producer.flush(5)
                self._producer.close()
                self._producer = self._made()

    def _send(self, partition: int) -> None:
        value = self._recorder.value()
        send = Send(key_of(self.topic, partition), value)
        begun = self._recorder.begin(self.process, "send", (send,))
        try:
            self._producer.produce(self.topic, payload_of(value), partition=partition, on_delivery=self._answered(begun, send))
        except BufferError:
            self._recorder.end(begun, "fail", (send,))
            raise

    def _answered(self, begun: Op, send: Send) -> Callable[[KafkaError | None, Message], None]:
        def answered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._recorder.surprise(f"process {begun.process}: {send.key} {send.value}: {error.name()}")
                self._recorder.end(begun, outcome_of_send(error.name()), (send,))
                return
            offset = message.offset()
            self._recorder.end(begun, "ok", (Send(send.key, send.value, offset if offset is not None and offset >= 0 else None),))

        return answered

    def _heard(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal = True
            self._recorder.surprise(f"process {self.process}: fatal {error}")
