"""Metrics of one process, in Prometheus' text format."""

import mmap
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from libs.telemetry.definitions import CounterDefinition, GaugeDefinition, HistogramDefinition, MetricSet
from libs.telemetry.durations import Durations
from libs.telemetry.metrics import Metrics
from libs.telemetry.process_memory import ProcessMemory
from libs.wire.errors import error_name


class Meters(MetricSet):
    appends: dict[str, int] = CounterDefinition(
        name="penstock_appends",
        help="Appends.",
        labels=("acks",),
        healthy="any",
    ).kept()
    durations: Durations = HistogramDefinition(name="penstock_append_seconds", help="Time.", healthy="any").kept()
    errors: dict[tuple[str, int], int] = CounterDefinition(
        name="penstock_errors",
        help="Errors.",
        labels=("api", "error"),
        healthy="0",
    ).kept(shown=lambda key: (key[0], error_name(key[1])))
    written: int = CounterDefinition(name="penstock_written", help="Written.", healthy="any").kept()

    @GaugeDefinition(name="penstock_partitions", help="Partitions.", healthy="any")
    def partitions(self) -> int:
        return 7


def test_counted_values_are_rendered() -> None:
    metrics = Metrics("storage")
    meters = Meters()
    meters.durations.observe(0.002)
    meters.appends["all"] = 3
    meters.errors["produce", 2] = 5
    meters.written += 1
    metrics.registry.register(meters)
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }
    assert samples["penstock_appends_total", "all"] == 3
    assert samples["penstock_errors_total", "produce", "CORRUPT_MESSAGE"] == 5
    assert samples["penstock_written_total",] == 1
    assert samples["penstock_partitions",] == 7
    assert samples["penstock_append_seconds_count",] == 1
    assert b"# HELP penstock_partitions Partitions.\n" in metrics.render()
    assert samples["target_info", "storage"] == 1


def test_a_counter_from_zero_shows_what_has_not_counted_yet() -> None:
    definition = CounterDefinition(name="d", help="D.", labels=("why",), from_zero=(("a",), ("b",)), healthy="0")
    assert list(definition.rows([(["b"], 2), (["c"], 1)])) == [(("a",), 0), (("b",), 2), (("c",), 1)]


def test_each_set_of_metrics_counts_for_itself() -> None:
    one, other = Meters(), Meters()
    one.written += 1
    one.appends["1"] = 1
    one.durations.observe(1.0)
    assert (other.written, other.appends, other.durations.count) == (0, {}, 0)


class MoreMeters(Meters):
    read: int = CounterDefinition(name="penstock_read", help="Read.", healthy="any").kept()


def test_a_set_of_metrics_has_those_of_its_parent_first() -> None:
    meters = MoreMeters()
    meters.written += 2
    meters.read += 1
    names = [family.name for family in meters.collect()]
    assert names == [*[family.name for family in Meters().collect()], "penstock_read"]


def test_a_declaration_is_no_default_on_which_a_count_could_add() -> None:
    assert not hasattr(Meters, "written")
    assert list(Meters.definitions) == ["appends", "durations", "errors", "written", "partitions"]
    assert [family.name for family in Meters().collect()] == [definition.name for definition in Meters.definitions.values()]


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
