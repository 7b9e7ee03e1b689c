"""What `make bench` makes of its rounds: pairs that alternate, quartiles, costs of both sides, and the page with plots."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, cast

import pytest

from tests.bench import __main__ as bench
from tests.bench import report, report_page
from tests.bench.cases import Case, Measured
from tests.bench.comparison import compare, quartiles, warm
from tests.bench.lean.generator import Loaded
from tests.bench.machine import machine
from tests.bench.sides import Side, assign_replicas

MACHINE = {"kind": "machine", "processor": "one & only", "kafka": "4.2.1"}


@dataclass
class FakeSide:
    name: str
    rates: list[float]
    durability: str = "page cache"
    pids: Mapping[str, int] = field(default_factory=lambda: {"server": os.getpid()})
    other_pids: Mapping[str, int] = field(default_factory=dict)


def loaded(rate: float, done: float) -> Loaded:
    """An open loop of a second whose quantiles are all 2 ms."""
    latency_us = dict.fromkeys(("p50", "p90", "p99", "p999", "max"), 2000.0)
    counts: dict[str, Any] = dict.fromkeys(("records", "answer_bytes", "empty", "unanswered", "throttle_ms"), 0)
    facts: dict[str, Any] = {
        "api": "produce",
        "loop": "open",
        "connections": 1,
        "threads": 1,
        "in_flight": 5,
        "tls": "",
        "scheduled": int(rate),
    }
    counts |= {"offered_rate": rate, "seconds": 1.0, "requests": int(done), "bytes": 10**6, "cpu_s": 0.1, "errors": {}}
    return Loaded(**facts, **counts, latency_us=latency_us, woken_late_us=latency_us)


def compared(case: str, ours: list[float], theirs: list[float], *, rate: float = 0.0, done: float = 0.0) -> dict[str, Any]:
    """The first round is not counted."""
    order: list[str] = []

    def run(side: Any, prepared: object, seconds: float) -> Measured:
        order.append(side.name)
        value = side.rates.pop(0)
        return Measured(value, 100, 10**6, loaded(rate, done if side.name == "kafka" else rate) if rate else None)

    made = Case(
        case, "ms (p99)" if rate else "MB/s", not rate, "a <fake> load", lambda side: None, run, lambda side, prepared: None
    )
    sides = [cast(Side, FakeSide("penstock", [0.0, *ours])), cast(Side, FakeSide("kafka", [0.0, *theirs]))]
    figure = compare(made, *sides, rounds=len(ours), seconds=1.0)
    assert order == ["penstock", "kafka", "kafka", "penstock"] * (len(order) // 4) + order[len(order) // 4 * 4 :]
    return figure


def test_pairs_alternate_and_their_lower_quartile_stands_beside_the_median() -> None:
    figure = compared("produce", [10, 20, 30, 40, 50], [10, 10, 10, 10, 10])
    assert (figure["penstock"], figure["kafka"], figure["ratio"]) == (30, 10, 3)
    assert (figure["ratio_quartiles"], figure["ratio_min"], figure["ratio_max"]) == ([2, 4], 1, 5)
    assert figure["quartiles"] == {"penstock": [20, 40], "kafka": [10, 10]}
    assert figure["values"]["penstock"] == [10, 20, 30, 40, 50]
    per_gb = {"cpu_s_per_gb", "switches_per_gb", "disk_read_share"}
    assert set(figure["costs"]["kafka"]) == {*per_gb, "memory_mb", "client_cores", "other_cores", "stolen_cores"}
    assert figure["costs"]["kafka"]["memory_mb"]["server"] > 1


def test_what_comes_before_a_turn_takes_the_place_of_what_was_prepared() -> None:
    """Also where both sides are warmed up."""
    read: list[object] = []

    def run(side: Any, prepared: object, seconds: float) -> Measured:
        read.append(prepared)
        return Measured(1.0, 1)

    made = Case("cold", "MB/s", True, "", lambda side: 0, run, lambda side, prepared: None)
    case = replace(made, renew=lambda side, prepared: cast(int, prepared) + 1)
    sides = [cast(Side, FakeSide("penstock", [])), cast(Side, FakeSide("kafka", []))]
    compare(case, *sides, rounds=2, seconds=1.0)
    assert sorted(read, key=str) == [1, 1, 2, 2, 3, 3]
    del read[:]
    warm(sides[:1], [case], 0.001)
    assert read[0] == 1


def test_a_row_says_what_stands_beside_penstock_if_it_is_not_what_the_page_is_about() -> None:
    figure = compared("sendfile-64KB-4conn", [10], [10])
    figure["values"]["read"] = figure["values"].pop("kafka")
    assert report_page.row_label(figure, "kafka") == "sendfile-64KB-4conn by read and write"
    assert report_page.row_label(figure, "read") == "sendfile-64KB-4conn"


@pytest.mark.parametrize(("values", "expected"), [([3.0], [3, 3]), ([1.0, 3.0], [1.5, 2.5])])
def test_quartiles_of_few_rounds(values: list[float], expected: list[float]) -> None:
    assert quartiles(values) == expected


@pytest.mark.parametrize(("replicas", "placed"), [(1, [[1], [2], [1]]), (2, [[1, 2], [2, 1], [1, 2]])])
def test_partitions_of_several_nodes_have_leaders_in_turn(replicas: int, placed: list[list[int]]) -> None:
    assert assign_replicas((1, 2), replicas, 3) == placed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--nodes"], "--nodes takes groups: lean, "),
        (["--lean", "--nodes", "--one-process"], "not allowed with argument --nodes"),
        (["--lean", "--separate", "--parent", "."], "not allowed with argument --separate"),
    ],
)
def test_sides_that_cannot_be_compared_are_refused(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(arguments)
    assert said in capsys.readouterr().err


def test_the_machine_and_the_versions_are_named() -> None:
    found = machine(["--lean", "--only", "a b"])
    assert found["command"] == "python -m tests.bench --lean --only 'a b'"
    assert "unknown" not in (found["memory"], found["disk"], found["python"], found["processor"], found["penstock"])


class Balanced(HTMLParser):
    """Elements that are open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture
def figures() -> list[dict[str, Any]]:
    offered = [compared(f"lean-offered-16KB-{rate}rps", [2, 2], [4, 4], rate=rate, done=500) for rate in (250, 500, 1000)]
    single = {
        "name": "memory-idle",
        "penstock": 234.0,
        "kafka": 338.0,
        "ratio": 0.69,
        "unit": "MB",
        "mark": "< 500",
        "settings": "idle",
    }
    return [MACHINE, compared("lean-produce-16KB-4conn", [10, 20], [10, 10]), *offered, single]


def test_the_page_needs_nothing_else_and_names_all_figures(figures: list[dict[str, Any]], tmp_path: Path) -> None:
    (tmp_path / "figures.jsonl").write_text("".join(json.dumps(each) + "\n" for each in figures), encoding="utf-8")
    assert report_page.main([str(tmp_path / "figures.jsonl"), str(tmp_path / "report.html")]) == 0
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    parsed = Balanced()
    parsed.feed(text)
    assert parsed.open == []
    assert parsed.seen.count("svg") == 8, "ratios, MB/s, latency, CPU and switches of two kinds of load, memory"
    assert not re.search(r"<script|<link|<img|src=|://|@import|url\(", text)
    for each in figures[1:]:
        assert f'<td class="">{each["name"]}</td>' in text or f"<td>{each['name']}</td>" in text
    assert "a &lt;fake&gt; load" in text
    assert "one &amp; only" in text
    assert not re.search(r"\bnan\b|\binf\b", text)


def test_a_side_that_did_not_keep_up_has_hollow_marks(figures: list[dict[str, Any]]) -> None:
    text = report_page.page(figures)
    assert len(re.findall(r'class="theirs p99 hollow"', text)) == 1, "500 of 1,000 a second"
    assert "ours p99 hollow" not in text


def test_a_page_says_when_the_machine_was_not_quiet(figures: list[dict[str, Any]]) -> None:
    for each in figures:
        for costs in each.get("costs", {}).values():
            costs["other_cores"] = 0.02
            costs["stolen_cores"] = 0.0
    assert "The machine was not quiet" not in report_page.page(figures)
    figures[1]["costs"]["kafka"]["stolen_cores"] = 0.4
    assert "0.42 cores (lean-produce-16KB-4conn). The machine was not quiet" in report_page.page(figures)


def test_less_is_better_for_latencies(figures: list[dict[str, Any]]) -> None:
    ratios = {each["name"]: report_page.advantage(each).value for each in figures if "values" in each}
    assert ratios["lean-produce-16KB-4conn"] == pytest.approx(1.5)
    assert ratios["lean-offered-16KB-250rps"] == pytest.approx(2.0)


def test_pages_of_no_figures_and_of_single_ones_are_written(figures: list[dict[str, Any]]) -> None:
    assert "Machine" in report_page.page([])
    assert "memory-idle" in report_page.page([figures[0], figures[-1]])


def test_the_table_for_docs_leaves_the_machine_out(figures: list[dict[str, Any]], tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "figures.jsonl").write_text("".join(json.dumps(each) + "\n" for each in figures), encoding="utf-8")
    assert report.main([str(tmp_path / "figures.jsonl")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(figures) - 1
