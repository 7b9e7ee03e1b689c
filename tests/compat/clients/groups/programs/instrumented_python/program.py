"""A producer and a consumer with OpenTelemetry's own instrumentation of confluent-kafka: `program.py SERVERS TOPIC`.

It sends a record within a span of its own, reads it, and prints its spans: one JSON object a line.
"""

import json
import sys

from confluent_kafka import Consumer, Producer
from opentelemetry import trace
from opentelemetry.instrumentation.confluent_kafka import ConfluentKafkaInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

POLLS = 300


def main(servers: str, topic: str) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    instrumentor = ConfluentKafkaInstrumentor()
    producer = instrumentor.instrument_producer(Producer({"bootstrap.servers": servers}), provider)
    with trace.get_tracer("shop").start_as_current_span("checkout"):
        producer.produce(topic, b"one")
    assert producer.flush(30) == 0
    given = {"bootstrap.servers": servers, "group.id": "shop", "auto.offset.reset": "earliest"}
    consumer = instrumentor.instrument_consumer(Consumer(given), provider)
    consumer.subscribe([topic])
    for _ in range(POLLS):
        if consumer.poll(0.1) is not None:
            break
    consumer.poll(0)  # the instrumentation ends a record's span when the next one is asked for
    consumer.close()
    for span in exporter.get_finished_spans():
        context = span.get_span_context()
        ids = {
            "trace_id": context.trace_id,
            "span_id": context.span_id,
            "parent_id": span.parent.span_id if span.parent else None,
        }
        links = [link.context.trace_id for link in span.links]
        print(json.dumps({"name": span.name, "kind": span.kind.name, **ids, "links": links}))


if __name__ == "__main__":
    main(*sys.argv[1:])
