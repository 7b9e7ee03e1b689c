"""Figures of `make bench` as a Markdown table: `python -m tests.bench.report FILE.jsonl [docs/performance.md]`.

Prints it, or puts it between the marks of the page.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
HEAD = (
    "| case | Penstock | Kafka | ratio (least–greatest) | mark | unit | durability | CPU, µs: Penstock | CPU, µs: Kafka |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def row(figure: dict[str, Any]) -> str:
    ratio = f"**{figure['ratio']:.2f}**" if "ratio" in figure else ""
    if "ratio_min" in figure:
        ratio += f" ({figure['ratio_min']:.2f}–{figure['ratio_max']:.2f})"
    sides = figure.get("durability")
    durability = " / ".join(sides.values()) if sides else ""
    cpu = figure.get("cpu_us", {})
    cells = [
        figure["name"],
        _number(figure["penstock"]),
        _number(figure["kafka"]) if "kafka" in figure else "",
        ratio,
        figure.get("mark", ""),
        figure["unit"],
        durability,
        _cpu(cpu.get("penstock", {}), figure.get("per", "")),
        _cpu(cpu.get("kafka", {}), figure.get("per", "")),
    ]
    return "| " + " | ".join(cells) + " |"


def table(figures: Iterable[dict[str, Any]]) -> str:
    return "\n".join([HEAD, *map(row, figures)])


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _cpu(of_processes: dict[str, float], per: str) -> str:
    if not of_processes:
        return ""
    parts = " + ".join(f"{name} {value:.3g}" for name, value in of_processes.items())
    return f"{parts} a {per}"


def main(arguments: list[str]) -> int:
    if len(arguments) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    lines = Path(arguments[0]).read_text(encoding="utf-8").splitlines()
    figures = [json.loads(line) for line in lines if line.startswith("{")]
    made = table(figure for figure in figures if figure.get("kind") != "machine")
    if len(arguments) == 1:
        print(made)
        return 0
    page = Path(arguments[1])
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, f"{page} has no {BEGIN} … {END}"
    page.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
