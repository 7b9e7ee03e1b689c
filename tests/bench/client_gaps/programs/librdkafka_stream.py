"""A steady producer, or a consumer, on librdkafka: see stream_lines.py."""

from confluent_kafka import OFFSET_END, Consumer, KafkaError, Message, Producer, TopicPartition
from stream_lines import Arguments, Pace, acknowledged, arguments, failed, received, until_sigterm, value

FLUSH_S = 60.0


def settings(asked: Arguments, **more: object) -> dict[str, object]:
    refresh = {"topic.metadata.refresh.interval.ms": asked.refresh_ms} if asked.refresh_ms else {}
    return {"bootstrap.servers": asked.bootstrap, "log_level": 2, **refresh, **more}


def produce(asked: Arguments) -> None:
    producer = Producer(settings(asked, **{"enable.idempotence": True, "acks": "all"}))
    pace = Pace(asked.per_second)
    while not over.is_set():
        for sequence in pace.due():
            producer.produce(asked.topic, value(sequence), partition=asked.partition, on_delivery=answered)
        producer.poll(pace.look_every_s)
    producer.flush(FLUSH_S)


def answered(error: KafkaError | None, message: Message) -> None:
    sequence = int(message.value() or b"")
    if error is None:
        acknowledged(sequence)
    else:
        failed(sequence, error)


def consume(asked: Arguments) -> None:
    consumer = Consumer(settings(asked, **{"group.id": "gaps", "enable.auto.commit": False}))
    consumer.assign([TopicPartition(asked.topic, asked.partition, OFFSET_END)])
    while not over.is_set():
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            received(message.value(), message.offset())
    consumer.close()


asked, over = arguments(), until_sigterm()
{"produce": produce, "consume": consume}[asked.mode](asked)
