"""Metrics of one process, in Prometheus' text format."""

from prometheus_client.parser import text_string_to_metric_families

from libs.telemetry.metrics import Metrics


def test_what_is_counted_is_rendered() -> None:
    metrics = Metrics("storage")
    metrics.counter("penstock_appends", "Appends.", ["acks"]).labels("all").inc(3)
    metrics.gauge("penstock_partitions", "Partitions.").set(7)
    metrics.histogram("penstock_append_seconds", "Time.").observe(0.002)
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }
    assert samples["penstock_appends_total", "all"] == 3
    assert samples["penstock_partitions",] == 7
    assert samples["penstock_append_seconds_count",] == 1
    assert samples["target_info", "storage"] == 1


def test_two_services_in_one_process_do_not_share_metrics() -> None:
    Metrics("a").counter("same_name", "One.")
    Metrics("b").counter("same_name", "Other.")


def test_process_metrics_are_there_when_asked_for() -> None:
    assert b"process_resident_memory_bytes" in Metrics("storage", process=True).render()
    assert b"process_resident_memory_bytes" not in Metrics("storage").render()
