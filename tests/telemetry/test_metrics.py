"""Metrics of one process, in Prometheus' text format."""

import mmap
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from libs.telemetry.definitions import CounterDefinition, GaugeDefinition, HistogramDefinition
from libs.telemetry.durations import Durations
from libs.telemetry.metrics import Metrics
from libs.telemetry.process_memory import ProcessMemory

APPENDS = CounterDefinition(name="penstock_appends", help="Appends.", labels=("acks",), healthy="any")
PARTITIONS = GaugeDefinition(name="penstock_partitions", help="Partitions.", healthy="any")
APPEND_TIME = HistogramDefinition(name="penstock_append_seconds", help="Time.", healthy="any")


class Meters(Collector):
    def __init__(self) -> None:
        self.durations = Durations()

    def collect(self) -> Iterator[Metric]:
        yield APPENDS.samples([(("all",), 3)])
        yield PARTITIONS.sample(7)
        yield APPEND_TIME.sample(self.durations)


def test_counted_values_are_rendered() -> None:
    metrics = Metrics("storage")
    meters = Meters()
    meters.durations.observe(0.002)
    metrics.registry.register(meters)
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }
    assert samples["penstock_appends_total", "all"] == 3
    assert samples["penstock_partitions",] == 7
    assert samples["penstock_append_seconds_count",] == 1
    assert b"# HELP penstock_partitions Partitions.\n" in metrics.render()
    assert samples["target_info", "storage"] == 1


def test_two_services_in_one_process_do_not_share_metrics() -> None:
    Metrics("a").registry.register(Meters())
    Metrics("b").registry.register(Meters())


def test_process_metrics_are_there_when_asked_for() -> None:
    assert b"process_resident_memory_bytes" in Metrics("storage", process=True).render()
    info = b'penstock_build_info{service="storage",version="7.1"} 1.0'
    assert info in Metrics("storage", process=True, version="7.1").render()
    assert b"process_resident_memory_bytes" not in Metrics("storage").render()


def test_mapped_pages_of_files_are_told_apart_from_a_process_s_own_memory(tmp_path: Path) -> None:
    """A gateway that read a backlog had 769 MB, of which 30 were its own."""
    size = 64 << 20
    file = tmp_path / "mapped"
    file.write_bytes(bytes(size))
    before = memory_samples()
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        assert sum(mapped[:: mmap.PAGESIZE]) == 0
        after = memory_samples()
    assert after["mapped"] - before["mapped"] > 0.9 * size
    assert after["own"] - before["own"] < 0.1 * size


def memory_samples() -> dict[str, float]:
    (family,) = ProcessMemory().collect()
    return {sample.labels["kind"]: sample.value for sample in family.samples}
