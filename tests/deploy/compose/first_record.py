"""The first record of a cluster that is being started: what a user waits for."""

from confluent_kafka import KafkaError, Message, Producer

from tests.support.polling import rounds

TOPIC = "first"


def produce_first_record(bootstrap: str, within_s: float = 240.0) -> None:
    """Returns when a record was acknowledged by all replicas in sync."""
    answers: list[KafkaError | None] = []

    def answered(error: KafkaError | None, _: Message) -> None:
        answers.append(error)

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "message.timeout.ms": int(within_s * 1000),
            "reconnect.backoff.max.ms": 200,
            "topic.metadata.refresh.fast.interval.ms": 50,
            "topic.metadata.propagation.max.ms": int(within_s * 1000),
            "error_cb": lambda error: None,
            "log_level": 0,
        }
    )
    producer.produce(TOPIC, b"first", on_delivery=answered)
    for _ in rounds("the first record", within_s):
        producer.poll(0.05)
        if answers:
            assert answers == [None], answers
            return
