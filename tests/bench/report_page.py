"""Figures of `make bench` as one HTML file with plots: `python -m tests.bench.report_page FIGURES.jsonl REPORT.html`.

The file needs nothing else: no script, no font, no picture. It ends with the JSON lines that it was made from.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from tests.bench.plots import Bar, Line, bars, lines

Figure = Mapping[str, Any]
QUANTILES = {"p50": "p50", "p99": "p99", "p999": "p99.9"}
OTHER_CORES_MAX = 0.1
"""Other programs and the hypervisor take less than this on a quiet machine."""
KEEPS_UP = 0.98
"""The share of an offered rate that counts as all of it."""
COSTS = {"CPU seconds per GB": "cpu_s_per_gb", "Context switches per GB": "switches_per_gb"}
STYLE = Path(__file__).with_suffix(".css")


def sides_of(figure: Figure) -> tuple[str, str]:
    """Penstock, and what it was compared with."""
    other = next(name for name in figure["values"] if name != "penstock")
    return "penstock", other


def advantage(figure: Figure) -> Bar:
    """How many times as good as the other side: above 1 also where less is better."""
    low, high = figure["ratio_quartiles"]
    if figure["higher_is_better"]:
        return Bar("ours", figure["ratio"], low, high)
    return Bar("ours", 1 / figure["ratio"], 1 / high, 1 / low)


def page(figures: Sequence[Figure]) -> str:
    machine = next((each for each in figures if each.get("kind") == "machine"), {})
    compared = [each for each in figures if "values" in each]
    single = [each for each in figures if "unit" in each and "values" not in each]
    other = sides_of(compared[0])[1] if compared else "kafka"
    body = [
        f"<h1>Penstock beside {_name(other)}</h1>",
        f'<p><span class="key ours"></span>Penstock<span class="key theirs"></span>{_name(other)}. Both take turns on the '
        "same cores, with the same load. Bars are medians of the rounds; whiskers are their quartiles.</p>",
        _noise(compared),
        "<h2>Machine, versions, settings</h2>",
        _machine(machine),
    ]
    if compared:
        body += [
            "<h2>Times as good</h2>",
            f"<p>Medians of the pairs; {_name(other)} is 1, or what a name has behind “by”. Where less is better, the ratio is "
            "turned round.</p>",
        ]
        body.append(bars("ratios", [(row_label(each, other), [advantage(each)]) for each in compared], reference=1.0))
        body += _throughput(compared) + _offered(compared, other) + _costs(compared)
    body += ["<h2>All figures</h2>", _table(compared), _singles(single)]
    raw = "\n".join(json.dumps(each) for each in figures)
    body += [
        "<h2>The lines that this page was made from</h2>",
        f"<details><summary>JSON lines</summary><pre>{escape(raw)}</pre></details>",
    ]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Penstock beside {_name(other)}</title><style>{STYLE.read_text(encoding='utf-8')}</style>"
    )
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(body)}</body></html>\n'


def write_page(path: Path, figures: Sequence[Figure]) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".new")
    beside.write_text(page(figures), encoding="utf-8")
    os.replace(beside, path)


NAMES = {
    "kafka": "Apache Kafka",
    "penstock": "Penstock",
    "parent": "the other checkout",
    "read": "read and write",
    "disk": "the disk alone",
}


def _name(side: str) -> str:
    return NAMES.get(side, escape(side))


def row_label(figure: Figure, other: str) -> str:
    """`other`: what the page as a whole is about."""
    beside = sides_of(figure)[1]
    return figure["name"] if beside == other else f"{figure['name']} by {_name(beside)}"


def _noise(compared: Sequence[Figure]) -> str:
    taken = [
        (costs["other_cores"] + costs["stolen_cores"], each["name"])
        for each in compared
        for costs in each.get("costs", {}).values()
    ]
    if not taken:
        return ""
    most, case = max(taken)
    words = f"Other programs and the hypervisor took at most {most:.2f} cores ({escape(case)})."
    if most <= OTHER_CORES_MAX:
        return f"<p>{words}</p>"
    return f'<p class="spoiled">{words} The machine was not quiet: ratios are rough, and absolute figures are worth nothing.</p>'


def _machine(machine: Figure) -> str:
    rows = (
        f"<tr><th>{escape(key.replace('_', ' '))}</th><td>{escape(str(value))}</td></tr>"
        for key, value in machine.items()
        if key != "kind"
    )
    return f"<table>{''.join(rows)}</table>" if machine else "<p>The figures do not tell.</p>"


def _family(figure: Figure) -> str:
    """What stands in one plot, since its bars have lengths that can be compared: `lean-fetch, MB/s`."""
    parts = figure["name"].split("-")
    return f"{'-'.join(parts[: 2 if parts[0] == 'lean' else 1])}, {figure['unit']}"


def _by_family(compared: Sequence[Figure]) -> dict[str, list[Figure]]:
    found: dict[str, list[Figure]] = {}
    for each in compared:
        found.setdefault(_family(each), []).append(each)
    return found


def _throughput(compared: Sequence[Figure]) -> list[str]:
    found = ["<h2>Throughput</h2>"]
    for family, cases in _by_family([each for each in compared if each["higher_is_better"]]).items():
        found += [f"<h3>{escape(family)}</h3>", bars(f"throughput: {family}", [(each["name"], _pair(each)) for each in cases])]
    return found


def _pair(figure: Figure) -> list[Bar]:
    return [
        Bar(css, figure[side], *figure["quartiles"][side]) for css, side in zip(("ours", "theirs"), sides_of(figure), strict=True)
    ]


def _offered(compared: Sequence[Figure], other: str) -> list[str]:
    """A plot for each kind of open loop: the name of its cases without the rate."""
    kinds: dict[str, list[Figure]] = {}
    for each in compared:
        if "offered_rate" in each:
            kinds.setdefault(each["name"].rpartition("-")[0], []).append(each)
    found = []
    for kind, cases in kinds.items():
        drawn = [
            Line(css, quantile, f"{_name(side)} {words}", [_point(each, side, quantile) for each in cases])
            for css, side in (("ours", "penstock"), ("theirs", other))
            for quantile, words in QUANTILES.items()
        ]
        found += [
            f"<h2>Latency against offered load, {escape(kind)}</h2>",
            "<p>Each request counts from the time at which it was due. A hollow mark: less was done than offered.</p>",
            lines(f"latency, {kind}", "offered requests/s", "ms", drawn),
        ]
    return found


def _point(figure: Figure, side: str, quantile: str) -> tuple[float, float, bool]:
    rate = figure["offered_rate"]
    return rate, figure["latency_ms"][side][quantile], figure["done_rate"][side] >= KEEPS_UP * rate


def _costs(compared: Sequence[Figure]) -> list[str]:
    found: list[str] = []
    for title, key in COSTS.items():
        found += [f"<h2>{title}</h2>", "<p>Of all processes of each side, for a gigabyte of record batches. Less is better.</p>"]
        counted = [each for each in compared if None not in [costs.get(key) for costs in each["costs"].values()]]
        for family, cases in _by_family(counted).items():
            rows = [(each["name"], _plain_pair([each["costs"][side][key] for side in sides_of(each)])) for each in cases]
            found += [f"<h3>{escape(family)}</h3>", bars(f"{title}: {family}", rows)]
    memory = [0.0, 0.0]
    for each in compared:
        used = [sum(each["costs"][side]["memory_mb"].values()) for side in sides_of(each)]
        memory = [max(pair) for pair in zip(memory, used, strict=True)]
    words = "Pss of all processes of each side, at its greatest after a round. Kafka's heap has its production size."
    return [*found, "<h2>Memory, MB</h2>", f"<p>{words}</p>", bars("memory", [("all processes", _plain_pair(memory))])]


def _plain_pair(values: Sequence[float]) -> list[Bar]:
    return [Bar(css, value, value, value) for css, value in zip(("ours", "theirs"), values, strict=True)]


def _table(compared: Sequence[Figure]) -> str:
    if not compared:
        return ""
    head = (
        "case",
        "Penstock",
        "other",
        "unit",
        "ratio",
        "quartiles",
        "least–greatest",
        "mark",
        "p50 / p99 ms",
        "durability",
        "what it did",
    )
    rows = []
    for each in compared:
        ours, theirs = sides_of(each)
        latency = each.get("latency_ms", {})
        cells = [
            (each["name"], ""),
            (f"{each[ours]:,g}", "n"),
            (f"{each[theirs]:,g}", "n"),
            (each["unit"], ""),
            (f"{each['ratio']:.2f}", "n"),
            ("–".join(f"{ratio:.2f}" for ratio in each["ratio_quartiles"]), "n"),
            (f"{each['ratio_min']:.2f}–{each['ratio_max']:.2f}", "n"),
            (each["mark"], ""),
            (
                "; ".join(f"{latency[side]['p50']:.2f} / {latency[side]['p99']:.2f}" for side in (ours, theirs))
                if latency
                else "",
                "n",
            ),
            (f"{each['durability'][ours]} / {each['durability'][theirs]}", ""),
            (f"{each['settings']}; {each['rounds']} rounds of {each['seconds']:g} s", ""),
        ]
        rows.append("<tr>" + "".join(f'<td class="{of}">{escape(words)}</td>' for words, of in cells) + "</tr>")
    return f"<table><tr>{''.join(f'<th>{words}</th>' for words in head)}</tr>{''.join(rows)}</table>"


def _singles(figures: Sequence[Figure]) -> str:
    """What is measured once, such as memory and start."""
    if not figures:
        return ""
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td>{escape(str(each.get(key, '')))}</td>" for key in ("name", "penstock", "kafka", "unit", "mark", "settings")
        )
        + "</tr>"
        for each in figures
    )
    head = "".join(f"<th>{words}</th>" for words in ("case", "Penstock", "Kafka", "unit", "mark", "what it did"))
    return f"<table><tr>{head}</tr>{rows}</table>"


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    text = Path(arguments[0]).read_text(encoding="utf-8")
    write_page(Path(arguments[1]), [json.loads(line) for line in text.splitlines() if line.startswith("{")])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
