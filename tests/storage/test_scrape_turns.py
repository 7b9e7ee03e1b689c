"""A scrape of a node with a thousand topics: what it costs in all, and how long it holds up the event loop at a time."""

import gc
from dataclasses import replace
from time import thread_time
from typing import Final

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.records import Topic
from libs.telemetry.definitions import GaugeDefinition, MetricSet, Rows
from libs.telemetry.exposition import Format
from libs.telemetry.metrics import Metrics
from tests.storage.cluster import StorageCluster
from tests.support.polling import until

TOPICS: Final = 1_000
CPU_S_MAX: Final = 0.2
TURN_S_MAX: Final = 0.005
SCRAPES: Final = 5
"""Other processes on the core make a turn take more CPU time, and nothing makes it take less."""


@pytest.fixture
async def many(cluster: StorageCluster) -> Metrics:
    """The metrics of a node that leads a thousand topics, each with series of its own."""
    await cluster.stop()
    cluster.config = replace(cluster.config, topic_series_max=TOPICS, partition_series_max=TOPICS)
    node = await cluster.start()
    for number in range(TOPICS):
        topic_id = (1000 + number).to_bytes(16, "big")
        await cluster.state(topic_id, epoch=0)
        await cluster.write(keys.topic(f"topic-{number}"), encode(Topic(f"topic-{number}", topic_id.hex(), 1)))
    await until(lambda: len(node.partitions.by_key) == TOPICS and all(each.leading for each in node.partitions.by_key.values()))
    return node.environment.metrics


def turns_of_a_scrape(metrics: Metrics, form: Format) -> tuple[bytearray, list[float]]:
    """Its text, and the CPU time that it takes in each turn of the event loop. Nothing else runs between its turns."""
    turns: list[float] = []
    scrape = metrics.render_in_slices(form)
    gc.collect()
    gc.disable()  # a collection takes as long as the objects of all tests in this process make it
    try:
        while True:
            since = thread_time()
            try:
                scrape.send(None)
            finally:
                turns.append(thread_time() - since)
    except StopIteration as end:
        return end.value, turns
    finally:
        gc.enable()


async def test_a_scrape_of_a_thousand_topics_is_cheap_and_holds_nobody_up(many: Metrics) -> None:
    for form in Format:
        scrapes = [turns_of_a_scrape(many, form) for _ in range(SCRAPES)]
        text = scrapes[0][0]
        assert text.count(b"\n") > 8 * TOPICS
        assert b'kafka_log_log_size{topic="topic-999",partition="0"}' in text
        assert min(sum(turns) for _, turns in scrapes) < CPU_S_MAX
        assert min(max(turns) for _, turns in scrapes) < TURN_S_MAX
        assert min(len(turns) for _, turns in scrapes) > 5


class Slow(MetricSet):
    @GaugeDefinition(name="penstock_slow", help="Rows that take long together.", labels=("row",), healthy="any")
    def rows(self) -> Rows:
        return [((str(number),), sum(range(10_000))) for number in range(1_000)]


async def test_a_set_of_metrics_that_makes_all_its_rows_at_once_is_found() -> None:
    metrics = Metrics("storage")
    metrics.registry.register(Slow())
    _, turns = turns_of_a_scrape(metrics, Format.PROMETHEUS)
    assert max(turns) > TURN_S_MAX
