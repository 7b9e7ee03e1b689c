"""A steady producer, or a consumer, on kafka-python: see stream_lines.py."""

import time
import warnings
from functools import partial

from stream_lines import Arguments, Pace, acknowledged, arguments, failed, received, until_sigterm, value

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition


def settings(asked: Arguments, **more: object) -> dict[str, object]:
    refresh = {"metadata_max_age_ms": asked.refresh_ms} if asked.refresh_ms else {}
    return {"bootstrap_servers": asked.bootstrap.split(","), **refresh, **more}


def produce(asked: Arguments) -> None:
    producer = KafkaProducer(**settings(asked, enable_idempotence=True, acks="all", linger_ms=0))
    pace = Pace(asked.per_second)
    while not over.is_set():
        for sequence in pace.due():
            sent = producer.send(asked.topic, value(sequence), partition=asked.partition)
            sent.add_callback(lambda metadata, sequence=sequence: acknowledged(sequence))
            sent.add_errback(partial(failed, sequence))
        time.sleep(pace.look_every_s)
    producer.close(timeout=60)


def consume(asked: Arguments) -> None:
    consumer = KafkaConsumer(**settings(asked, enable_auto_commit=False))
    where = TopicPartition(asked.topic, asked.partition)
    consumer.assign([where])
    consumer.seek_to_end(where)
    while not over.is_set():
        for messages in consumer.poll(timeout_ms=100).values():
            for message in messages:
                received(message.value, message.offset)
    consumer.close()


asked, over = arguments(), until_sigterm()
{"produce": produce, "consume": consume}[asked.mode](asked)
