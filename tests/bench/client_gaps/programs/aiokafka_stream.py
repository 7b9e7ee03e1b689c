"""A steady producer, or a consumer, on aiokafka: see stream_lines.py."""

import asyncio
from functools import partial

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from stream_lines import Arguments, Pace, acknowledged, arguments, failed, received, until_sigterm, value


def settings(asked: Arguments, **more: object) -> dict[str, object]:
    refresh = {"metadata_max_age_ms": asked.refresh_ms} if asked.refresh_ms else {}
    return {"bootstrap_servers": asked.bootstrap, **refresh, **more}


async def produce(asked: Arguments) -> None:
    producer = AIOKafkaProducer(**settings(asked, enable_idempotence=True, acks="all", linger_ms=0))
    await producer.start()
    pace = Pace(asked.per_second)
    while not over.is_set():
        for sequence in pace.due():
            sent = await producer.send(asked.topic, value(sequence), partition=asked.partition)
            sent.add_done_callback(partial(answered, sequence))
        await asyncio.sleep(pace.look_every_s)
    await producer.stop()


def answered(sequence: int, sent: "asyncio.Future[object]") -> None:
    error = sent.exception()
    if error is None:
        acknowledged(sequence)
    else:
        failed(sequence, error)


async def consume(asked: Arguments) -> None:
    consumer = AIOKafkaConsumer(**settings(asked, enable_auto_commit=False))
    await consumer.start()
    where = TopicPartition(asked.topic, asked.partition)
    consumer.assign([where])
    await consumer.seek_to_end(where)
    while not over.is_set():
        for messages in (await consumer.getmany(timeout_ms=100)).values():
            for message in messages:
                received(message.value, message.offset)
    await consumer.stop()


asked, over = arguments(), until_sigterm()
asyncio.run({"produce": produce, "consume": consume}[asked.mode](asked))
