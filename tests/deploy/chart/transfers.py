"""A client that produces and consumes until SIGTERM, and then says what became of it, as one line of JSON.

`python -m tests.deploy.chart.transfers BOOTSTRAP TOPIC [NAME=VALUE …]`. The topic is made with three partitions. Names are those
of librdkafka's configs.
"""

import json
import signal
import sys
import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

PAUSE_S = 0.03
"""Between two records. At 100 records a second, the pods took a whole core for them."""
DRAIN_S = 30.0
BEGUN = "the first record came back"


class Transfers:
    def __init__(self, bootstrap: str, topic: str, *configs: str) -> None:
        self._topic = topic
        self._common: dict[str, Any] = {"bootstrap.servers": bootstrap, **dict(each.split("=", 1) for each in configs)}
        self._stopping = threading.Event()
        self._sent = 0
        self._acknowledged: set[int] = set()
        self._consumed: set[int] = set()
        self._errors: list[str] = []
        self._last_ack = self._last_record = time.monotonic()
        self._ack_gap_s = self._record_gap_s = 0.0

    def run(self) -> dict[str, object]:
        signal.signal(signal.SIGTERM, lambda *_: self._stopping.set())
        admin = AdminClient(self._common)
        for made in admin.create_topics([NewTopic(self._topic, 3)]).values():
            made.result(30)
        consuming = threading.Thread(target=self._consume)
        consuming.start()
        self._produce()
        consuming.join()
        return {
            "sent": self._sent,
            "acknowledged": len(self._acknowledged),
            "lost": len(self._acknowledged - self._consumed),
            "errors": self._errors[:10],
            "longest_ack_gap_ms": round(self._ack_gap_s * 1000),
            "longest_record_gap_ms": round(self._record_gap_s * 1000),
        }

    def _produce(self) -> None:
        producer = Producer({**self._common, "enable.idempotence": True, "linger.ms": 1})
        while not self._stopping.is_set():
            producer.produce(self._topic, str(self._sent).encode(), on_delivery=self._delivered)
            self._sent += 1
            producer.poll(0)
            self._stopping.wait(PAUSE_S)
        producer.flush(DRAIN_S)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._errors.append(f"produce: {error}")
            return
        now = time.monotonic()
        if self._acknowledged:
            self._ack_gap_s = max(self._ack_gap_s, now - self._last_ack)
        self._last_ack = now
        self._acknowledged.add(int(message.value()))

    def _consume(self) -> None:
        config = {**self._common, "group.id": self._topic, "auto.offset.reset": "earliest"}
        consumer = Consumer(config)
        consumer.subscribe([self._topic])
        deadline = float("inf")
        while time.monotonic() < deadline:
            if self._stopping.is_set() and deadline == float("inf"):
                deadline = time.monotonic() + DRAIN_S
            if self._stopping.is_set() and len(self._consumed) >= self._sent > 0:
                break
            try:
                message = consumer.poll(0.1)
            except KafkaException as error:
                self._errors.append(f"consume: {error}")
                continue
            if message is None:
                continue
            if message.error() is not None:
                self._errors.append(f"consume: {message.error()}")
                continue
            now = time.monotonic()
            if self._consumed:
                self._record_gap_s = max(self._record_gap_s, now - self._last_record)
            else:
                print(BEGUN, flush=True)
            self._last_record = now
            self._consumed.add(int(message.value()))
        consumer.close()


if __name__ == "__main__":
    print(json.dumps(Transfers(*sys.argv[1:]).run()), flush=True)
