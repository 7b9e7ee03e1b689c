"""The report as one HTML page, which needs no other file and runs no script."""

from collections.abc import Sequence
from html import escape
from typing import Any

from services.pipeline.audit.plots import COLOURS, offset_plot, time_plot

ROWS_MAX = 1000
PLOTTED_MAX = 64
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: #1d1d1b }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem }
.verdict { padding: .6rem .9rem; border-left: .4rem solid; font-weight: 600; background: #fff }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #e4e0d6 }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
svg { width: 100%; height: auto } svg text { font: 11px system-ui, sans-serif; fill: #555 }
.key span { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 1em }
"""


def as_page(data: dict[str, Any]) -> str:
    """`data` as `report.py:as_data` makes it."""
    bad = [finding for finding in data["findings"] if not finding["explained"]]
    explained = [finding for finding in data["findings"] if finding["explained"]]
    verdict = "Log and lake agree." if data["agrees"] else f"{len(bad)} finding{'s' * (len(bad) != 1)} that nothing explains."
    colour = COLOURS["same" if data["agrees"] else "differs"]
    title = f"Audit {escape(data['job'])}"
    body = [
        f"<h1>{title}</h1>",
        f'<p class="verdict" style="border-color: {colour}">{verdict}</p>',
        f"<p>{escape(data['started'])}, {data['seconds']} s, lake <code>{escape(data['lake'])}</code></p>",
        _totals(data["totals"]),
        f"<h2>Unexplained</h2>{_findings(bad)}",
        f"<h2>Records by time</h2>{_key(('log', 'in the log'), ('lake', 'in the lake'), ('differs', 'sides differ'))}",
        time_plot(data["times"]),
        f"<h2>Offsets</h2>{_key(('same', 'the same in log and lake'), ('absent', 'explained'), ('differs', 'unexplained'))}",
        offset_plot(data["partitions"][:PLOTTED_MAX], data["findings"]),
        f"<h2>Explained</h2>{_summary(explained)}",
        f"<details><summary>each of them</summary>{_findings(explained)}</details>",
        f"<h2>Partitions</h2>{_partitions(data['partitions'])}",
    ]
    head = f'<meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{chr(10).join(body)}\n</body></html>\n'


def _totals(totals: dict[str, Any]) -> str:
    rows = [(side, f"{totals[side]['records']:,}", f"{totals[side]['bytes']:,}") for side in ("log", "lake")]
    buckets = f"<p>{totals['differing_buckets']:,} of {totals['buckets']:,} buckets of offsets differ.</p>"
    return _table(("side", "records", "bytes of keys and values"), rows, numbers_from=1) + buckets


def _findings(findings: list[dict[str, Any]]) -> str:
    if not findings:
        return "<p>None.</p>"
    rows = [
        (
            f"{each['topic']}-{each['partition']}",
            f"{each['first']}",
            f"{each['last']}",
            f"{each['records']:,}",
            each["sentence"].partition("): ")[2],
        )
        for each in findings[:ROWS_MAX]
    ]
    more = f"<p>and {len(findings) - ROWS_MAX:,} more in the JSON report</p>" if len(findings) > ROWS_MAX else ""
    return _table(("partition", "first", "last", "records", "what"), rows, numbers_from=1, numbers_to=4) + more


def _summary(findings: list[dict[str, Any]]) -> str:
    sums: dict[str, tuple[int, int]] = {}
    for each in findings:
        runs, records = sums.get(each["kind"], (0, 0))
        sums[each["kind"]] = runs + 1, records + each["records"]
    rows = [(kind, f"{runs:,}", f"{records:,}") for kind, (runs, records) in sorted(sums.items())]
    return _table(("reason", "runs", "offsets"), rows, numbers_from=1) if rows else "<p>None.</p>"


def _partitions(partitions: list[dict[str, Any]]) -> str:
    rows = [
        (
            f"{each['topic']}-{each['partition']}",
            str(each["first"]),
            str(each["last"]),
            f"{each['log_records']:,}",
            f"{each['lake_records']:,}",
        )
        for each in partitions
    ]
    return _table(("partition", "first", "last", "in the log", "in the lake"), rows, numbers_from=1)


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, numbers_from: int, numbers_to: int = 99) -> str:
    def cells(tag: str, values: tuple[str, ...]) -> str:
        return "".join(
            f"<{tag}{' class=n' * (numbers_from <= at < numbers_to)}>{escape(value)}</{tag}>" for at, value in enumerate(values)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{cells('th', heads)}</tr></thead><tbody>{body}</tbody></table>"


def _key(*entries: tuple[str, str]) -> str:
    return (
        '<p class="key">'
        + "".join(f'<span style="background: {COLOURS[name]}"></span>{escape(text)}' for name, text in entries)
        + "</p>"
    )
