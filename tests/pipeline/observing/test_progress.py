"""A stream that is observed: its group in Kafka's own tool, its metrics, its spans, its status."""

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from services.pipeline.errors import PipelineError
from services.pipeline.observing.group import StreamGroup
from services.pipeline.observing.pipeline_meters import PipelineMeters, StreamMeters
from services.pipeline.observing.progress import StreamObserver, observe
from services.pipeline.observing.serving import MetricsServer
from services.pipeline.observing.settings import TelemetrySettings
from services.pipeline.observing.spans import BatchSpans
from services.pipeline.observing.status import GroupOf, status_lines
from services.pipeline.observing.telemetry import start_telemetry
from services.pipeline.spark.checkpoint import Checkpoint
from services.pipeline.spark.cluster import ClusterSettings, Topics
from services.pipeline.spark.kafka_source import read_stream, source_options
from services.pipeline.transforms.trace_contexts import CONTEXTS_MAX, traceparent
from tests.compat.kafka.tools import run_tool
from tests.pipeline.topics import Record, make_topic
from tests.pipeline.topics import produce as produce_to_partitions
from tests.support.polling import eventually


def context(number: int) -> str:
    return f"00-{number + 1:032x}-{number + 1:016x}-01"


def produce(bootstrap: str, topic: str, count: int) -> None:
    """Each with a trace context of its own."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        headers = [("traceparent", context(number).encode()), ("other", None)]
        producer.produce(topic, b"value", b"key", 0, headers=headers)
    assert producer.flush(30) == 0


class ObservedStream:
    """A stream of a topic into a folder, run in rounds that take what is there."""

    def __init__(
        self, spark: SparkSession, bootstrap: str, topic: str, folder: Path, meters: StreamMeters, spans: BatchSpans
    ) -> None:
        self.lake = folder / "lake"
        self.group = f"group-of-{topic}"
        self._cluster = ClusterSettings(bootstrap)
        self._checkpoint = folder / "checkpoint"
        self._records = read_stream(spark, source_options(self._cluster, Topics((topic,))))
        self._name = topic
        self.meters = meters
        self.observer = observe(spark, topic, StreamGroup(self._cluster, self.group), meters, spans)

    def round(self) -> None:
        before = self.meters.batches.count
        writer = self._records.writeStream.queryName(self._name).option("checkpointLocation", str(self._checkpoint))
        writer.foreachBatch(self._write).trigger(availableNow=True).start().awaitTermination()
        eventually(lambda: self.meters.batches.count > before)

    def _write(self, records: DataFrame, batch: int) -> None:
        self.observer.counted(records, batch).write.mode("append").parquet(str(self.lake))
        self.observer.add_dead_letters(1, batch)


@contextmanager
def closing(observer: StreamObserver) -> Iterator[None]:
    try:
        yield
    finally:
        observer.close()


def described(bootstrap: str, group: str, topic: str) -> list[str]:
    """The columns of the topic's line in the answer of kafka-consumer-groups.sh --describe."""
    answer = run_tool("kafka-consumer-groups", "--bootstrap-server", bootstrap, "--describe", "--group", group).text
    return next(line.split() for line in answer.splitlines() if f" {topic} " in line)


def test_a_stream_is_seen_in_kafka_s_tool_in_metrics_in_spans_and_in_its_status(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    make_topic(bootstrap, topic, 1)
    produce(bootstrap, topic, 40)
    exporter, meters = InMemorySpanExporter(), PipelineMeters()
    spans = BatchSpans(exporter)
    stream = ObservedStream(spark, bootstrap, topic, tmp_path, meters.of("orders"), spans)
    server = MetricsServer(meters, "127.0.0.1", 0)
    with closing(stream.observer):
        stream.round()
        produce(bootstrap, topic, 7)
        assert described(bootstrap, stream.group, topic)[1:6] == [topic, "0", "40", "47", "7"]
        stream.observer.refresh()
        assert stream.meters.lags[topic].offsets == 7
        page = scraped(server)
        assert page['penstock_pipeline_rows_total{job="orders"}'] == 40
        assert page['penstock_pipeline_bytes_total{job="orders"}'] == 40 * 8
        assert page['penstock_pipeline_dead_letters_total{job="orders"}'] == 1
        assert page[f'penstock_pipeline_lag_offsets{{job="orders",topic="{topic}"}}'] == 7
        assert page[f'penstock_pipeline_freshness_seconds{{job="orders",topic="{topic}"}}'] > 0
        line = status_lines(ClusterSettings(bootstrap), {"orders": GroupOf(stream.group, "/c")})[1].split()
        assert line[:2] == ["orders", "0"]
        assert line[-4:-1] == [topic, "7", line[-2]]
        stream.round()
        stream.observer.refresh()
        assert scraped(server)[f'penstock_pipeline_freshness_seconds{{job="orders",topic="{topic}"}}'] == 0
    server.close()
    spans.flush()
    finished = exporter.get_finished_spans()
    first, second = [span for span in finished if span.name.endswith("micro-batch")]
    assert (first.attributes or {})["penstock.rows"] == 40
    assert 1 <= len(first.links) <= CONTEXTS_MAX
    linked = {link.context.trace_id for link in first.links}
    assert linked <= {number + 1 for number in range(40)}
    assert len(second.links) <= 7
    of_first = [span for span in finished if span.name == "process orders" and span.links[0].context == first.context]
    assert {span.context.trace_id for span in of_first} == linked, "each of these traces leads to the lake"
    for span in of_first:
        assert span.parent is not None
        assert span.parent.span_id == span.context.trace_id, "both ids are the record's number"
    spans.close()


def aborted(bootstrap: str, topic: str, count: int) -> None:
    records = [Record(0, b"key", b"aborted") for _ in range(count)]
    produce_to_partitions(bootstrap, topic, records, transactional_id=f"{topic}-id", abort=True)


def test_a_batch_of_aborted_records_alone_leaves_no_lag(spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path) -> None:
    make_topic(bootstrap, topic, 1)
    spans = BatchSpans(InMemorySpanExporter())
    stream = ObservedStream(spark, bootstrap, topic, tmp_path, PipelineMeters().of("orders"), spans)
    with closing(stream.observer):
        produce(bootstrap, topic, 5)
        stream.round()
        aborted(bootstrap, topic, 3)
        stream.round()
        assert described(bootstrap, stream.group, topic)[1:6] == [topic, "0", "9", "9", "0"]
    spans.close()


def test_an_observer_that_is_closed_hears_of_no_later_query(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    make_topic(bootstrap, topic, 1)
    spans = BatchSpans(InMemorySpanExporter())
    first, second = (ObservedStream(spark, bootstrap, topic, tmp_path, PipelineMeters().of("orders"), spans) for _ in range(2))
    first.observer.close()
    with closing(second.observer):
        produce(bootstrap, topic, 5)
        second.round()
        assert (first.meters.rows, second.meters.rows) == (0, 5)
    second.observer.close()
    spans.close()


def test_a_row_s_topic_partition_offset_and_trace_are_found_in_the_lake(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    make_topic(bootstrap, topic, 1)
    produce(bootstrap, topic, 5)
    spans = BatchSpans(InMemorySpanExporter())
    stream = ObservedStream(spark, bootstrap, topic, tmp_path, PipelineMeters().of("orders"), spans)
    with closing(stream.observer):
        stream.round()
    spans.close()
    rows = spark.read.parquet(str(stream.lake)).withColumn("trace", traceparent())
    found = rows.where(F.col("trace").contains(f"-{4:032x}-")).select("topic", "partition", "offset", "trace").collect()
    assert [tuple(row) for row in found] == [(topic, 0, 3, context(3))]


def test_headers_that_are_no_trace_context_give_none(spark: SparkSession) -> None:
    texts = ["00-xyz", "", context(1).upper().replace("0A", "0a") + "-", context(1)]
    frame = spark.createDataFrame([(number,) for number in range(len(texts))], "number int")
    header = F.element_at(F.array(*map(F.lit, texts)), F.col("number") + 1).cast("binary")
    frame = frame.withColumn("headers", F.array(F.struct(F.lit("traceparent").alias("key"), header.alias("value"))))
    assert [row.trace for row in frame.select("number", traceparent().alias("trace")).orderBy("number").collect()] == [
        None,
        None,
        None,
        context(1),
    ]


def test_options_of_java_s_clients_are_no_matter_for_the_group(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, 1)
    java = {"max.poll.records": "7", "ssl.truststore.location": "/nowhere", "security.protocol": "PLAINTEXT"}
    group = StreamGroup(ClusterSettings(bootstrap, java), f"group-of-{topic}")
    try:
        group.commit({(topic, 0): 0}, 0)
        assert group.committed()[(topic, 0)].offset == 0
    finally:
        group.close()


def test_a_job_whose_cluster_the_group_cannot_reach_runs_without_it(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = ClusterSettings(bootstrap, {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"})
    telemetry = start_telemetry(TelemetrySettings())
    observer = telemetry.observe(spark, cluster, "orders", "group", Checkpoint(spark, str(tmp_path)))
    assert "orders: its lag is not shown: group group has no client for" in caplog.text
    observer.refresh()
    observer.close()


def test_a_group_that_nobody_wrote_has_no_status_yet(bootstrap: str) -> None:
    lines = status_lines(ClusterSettings(bootstrap), {"orders": GroupOf("nobody-wrote-this", "/c")})
    assert lines[1].split() == ["orders", "none", "yet"]


def test_a_group_of_another_file_s_job_says_nothing_of_this_one(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, 1)
    cluster, name = ClusterSettings(bootstrap), f"group-of-{topic}"
    group = StreamGroup(cluster, name, "/other/lake/_checkpoints/orders")
    group.commit({(topic, 0): 0}, 0)
    group.close()
    [_, line] = status_lines(cluster, {"orders": GroupOf(name, "/lake/_checkpoints/orders")})
    assert line.split()[:2] == ["orders", "unknown"]
    assert line.endswith(f"the group {name} has offsets of the checkpoint /other/lake/_checkpoints/orders")
    [_, line] = status_lines(cluster, {"orders": GroupOf(name, "/other/lake/_checkpoints/orders")})
    assert line.split()[:2] == ["orders", "0"]


def test_a_metrics_port_that_is_taken_is_one_sentence() -> None:
    taken = MetricsServer(PipelineMeters(), "127.0.0.1", 0)
    with pytest.raises(
        PipelineError, match=rf"telemetry.metrics_port: 127.0.0.1:{taken.port} cannot be listened on: Address already"
    ):
        MetricsServer(PipelineMeters(), "127.0.0.1", taken.port)
    taken.close()


def scraped(server: MetricsServer) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


def test_records_of_a_partition_that_is_new_count_as_lag(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, 1)
    produce(bootstrap, topic, 3)
    cluster = ClusterSettings(bootstrap)
    group = StreamGroup(cluster, f"group-of-{topic}")
    group.commit({(topic, 0): 3}, 0)
    grown = ("--alter", "--topic", topic, "--partitions", "2")
    run_tool("kafka-topics", "--bootstrap-server", bootstrap, *grown)
    produce_to_partitions(bootstrap, topic, [Record(1, b"k", b"v", 1_000) for _ in range(5)])
    assert group.with_new_partitions({(topic, 0): 3}) == {(topic, 0): 3, (topic, 1): 0}
    group.close()
    line = status_lines(cluster, {"orders": GroupOf(f"group-of-{topic}", "/c")})[1].split()
    assert line[-4:-1] == [topic, "5", line[-2]]
    assert float(line[-2]) > 0
