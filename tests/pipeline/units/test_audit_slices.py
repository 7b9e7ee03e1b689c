"""Slices beside slices, runs of findings, and the report that is drawn from them."""

from xml.etree import ElementTree

from services.pipeline.audit.findings import Finding, Kind, gap, joined
from services.pipeline.audit.page import as_page
from services.pipeline.audit.plots import TIMES_MAX, offset_plot, time_plot
from services.pipeline.audit.slices import (
    Bucket,
    Partition,
    Range,
    Scope,
    Slice,
    absent_offsets,
    differing_buckets,
    touching_joined,
)


def piece(bucket: int, first: int, last: int, records: int | None = None, low: int = 1, start_s: int = 0) -> Slice:
    count = last - first + 1 if records is None else records
    return Slice("t", 0, bucket, start_s, count, 10 * count, first, last, low, 2, 3)


def test_only_buckets_whose_checksums_differ_are_named() -> None:
    log = [piece(0, 0, 9), piece(1, 10, 19), piece(2, 20, 29)]
    lake = [piece(0, 0, 9), piece(1, 10, 19, low=7)]
    assert differing_buckets(log, lake) == {Bucket("t", 0, 1), Bucket("t", 0, 2)}


def test_a_record_in_another_slice_of_time_differs_though_all_sums_are_the_same() -> None:
    assert differing_buckets([piece(0, 0, 9)], [piece(0, 0, 9, start_s=3600)]) == {Bucket("t", 0, 0)}


def test_gaps_lie_before_between_and_after_buckets_and_within_them() -> None:
    slices = [piece(0, 2, 9), piece(2, 21, 25, records=4, start_s=0), piece(2, 26, 27, start_s=3600)]
    between, holed = absent_offsets(slices, {Partition("t", 0): Scope(0, 30), Partition("t", 1): Scope(5, 8)})
    assert between == [Range("t", 0, 0, 1), Range("t", 0, 10, 20), Range("t", 0, 28, 29), Range("t", 1, 5, 7)]
    assert holed == {Bucket("t", 0, 2)}


def test_ranges_that_touch_are_one() -> None:
    assert touching_joined([Range("t", 0, 5, 6), Range("t", 0, 1, 4), Range("t", 1, 7, 7)]) == [
        Range("t", 0, 1, 6),
        Range("t", 1, 7, 7),
    ]


def test_runs_of_one_kind_that_touch_are_one_finding() -> None:
    runs = [gap(Kind.MISSING, "t", 0, 5, 6), gap(Kind.MISSING, "t", 0, 1, 4), Finding(Kind.DIFFERENT, "t", 0, 7, 7, 1, ("key",))]
    assert joined(runs) == [gap(Kind.MISSING, "t", 0, 1, 6), Finding(Kind.DIFFERENT, "t", 0, 7, 7, 1, ("key",))]


def test_a_finding_is_a_sentence() -> None:
    assert str(Finding(Kind.DIFFERENT, "t", 3, 7, 7, 1, ("key", "timestamp_type"))) == (
        "t-3 offset 7 (1 record): different: the lake has another key, timestamp type"
    )
    assert (
        str(gap(Kind.CONTROL, "t", 3, 7, 9)) == "t-3 offsets 7 to 9 (3 records): control records: control records of transactions"
    )


def test_every_kind_has_a_sentence() -> None:
    assert all(str(gap(kind, "t", 0, 1, 2)) for kind in Kind)


def report(findings: list[dict[str, object]]) -> dict[str, object]:
    side = {"records": 10, "bytes": 100}
    return {
        "job": "<orders>",
        "lake": "/lake/orders",
        "started": "2026-11-27T08:00:00Z",
        "seconds": 1.5,
        "agrees": not findings,
        "totals": {"log": side, "lake": side, "buckets": 3, "differing_buckets": 1},
        "partitions": [{"topic": "t", "partition": 0, "first": 0, "last": 9, "log_records": 10, "lake_records": 10}],
        "times": [{"start": "2026-11-27T08:00:00Z", "log": 10, "lake": 9}],
        "findings": findings,
    }


def finding(**other: object) -> dict[str, object]:
    plain = {"kind": "missing", "explained": False, "topic": "t", "partition": 0, "first": 4, "last": 4, "records": 1}
    return {**plain, "sentence": "t-0 offset 4 (1 record): missing: the log has them", **other}


def test_the_page_names_each_finding_and_brings_nothing_from_elsewhere() -> None:
    page = as_page(report([finding(), finding(kind="aborted records", explained=True, first=6, last=7, records=2)]))
    assert "1 finding that nothing explains." in page
    assert "missing: the log has them" in page
    assert "Audit &lt;orders&gt;" in page
    assert not any(word in page for word in ("<script", "http:", "https:", "src=", "href="))
    assert "Log and lake agree." in as_page(report([]))


def test_plots_are_well_formed_and_bounded() -> None:
    times = [{"start": f"<{at}>", "log": at, "lake": at} for at in range(5000)]
    plot = ElementTree.fromstring(time_plot(times))
    assert len(plot.findall("rect")) <= 2 * TIMES_MAX
    assert ElementTree.fromstring(time_plot([])).findall("rect") == []
    partition = {"topic": "t", "partition": 0, "first": 0, "last": 9}
    drawn = ElementTree.fromstring(offset_plot([partition], [finding(first=-5, last=12)])).findall("rect")
    assert all(float(box.get("x", "-1")) >= 0 and float(box.get("x", "0")) + float(box.get("width", "0")) <= 961 for box in drawn)
