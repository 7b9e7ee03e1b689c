"""Traces as HTML, without scripts: a list of traces, and a table of the stages of one. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from libs.runtime.tracing.trace_views import SpanRow, TraceLine, WholeTrace, utc

_STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 1.5em; color: #222; }
h1 { font-size: 1.2em; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: 3px 10px 3px 0; border-bottom: 1px solid #e4e4e4; vertical-align: top; }
th { color: #666; font-weight: normal; } .n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.w { white-space: nowrap; }
.id { font-family: ui-monospace, monospace; font-size: 12px; } .failed, .error { color: #b00020; } .slow { color: #a05a00; }
.note { color: #666; } .attributes { color: #555; font-size: 12px; overflow-wrap: anywhere; }
.line { position: relative; width: 16em; min-width: 16em; }
.line div { position: absolute; top: 7px; height: 10px; min-width: 2px; background: #5b8bd0; }
.line div.bad { background: #b00020; }
"""


def list_page(process: str, lines: Sequence[TraceLine], unanswered: Mapping[str, str]) -> str:
    """The page of `/debug/traces`."""
    rows = "".join(
        f'<tr><td><a class="id" href="/debug/traces/{escape(line.trace_id)}">{escape(line.trace_id)}</a></td>'
        f'<td class="{escape(line.kind)}">{escape(line.kind)}</td><td>{escape(line.name)}</td>'
        f'<td class="n">{utc(line.start_ns)}</td><td class="n">{line.duration_ms:.3f}</td><td class="n">{line.spans}</td>'
        f'<td>{escape(", ".join(line.processes))}</td><td class="error">{escape(line.error)}</td></tr>\n'
        for line in lines
    )
    head = _head(
        ("trace", ""), ("kind", ""), ("name", ""), ("start", "n"), ("ms", "n"), ("spans", "n"), ("processes", ""), ("error", "")
    )
    nothing = "" if lines else '<p class="note">No trace yet. Slow and failed requests come by themselves.</p>\n'
    return _page(f"Traces kept by {process}", f"{_missing(unanswered)}<table>\n{head}{rows}</table>\n{nothing}")


def trace_page(trace: WholeTrace) -> str:
    """The page of `/debug/traces/ID`."""
    whole_ns = max(1, trace.end_ns - trace.start_ns)
    rows = "".join(_row(row, trace.start_ns, whole_ns) for row in trace.rows)
    head = _head(("process", ""), ("stage", ""), ("at ms", "n"), ("ms", "n"), ("", ""), ("error", ""), ("", ""))
    left_out = f'<p class="note">{trace.left_out} more spans were left out.</p>\n' if trace.left_out else ""
    about = (
        f'<p><a href="/debug/traces">all traces</a> · <span class="{escape(trace.kind)}">{escape(trace.kind)}</span> · '
        f"{utc(trace.start_ns)} · {whole_ns / 1e6:.3f} ms</p>\n"
    )
    return _page(f"Trace {trace.trace_id}", f"{about}{_missing(trace.unanswered)}<table>\n{head}{rows}</table>\n{left_out}")


def _row(row: SpanRow, start_ns: int, whole_ns: int) -> str:
    span = row.span
    at, took = span.start_ns - start_ns, span.end_ns - span.start_ns
    left, width = 100 * at / whole_ns, 100 * took / whole_ns
    bar = f'<div class="{"bad" if span.error else "ok"}" style="left:{left:.2f}%;width:{width:.2f}%"></div>'
    return (
        f'<tr><td class="w">{escape(span.process)}</td>'
        f'<td class="w" style="padding-left:{1.2 * row.depth:.1f}em">{escape(span.name)}</td>'
        f'<td class="n">{at / 1e6:.3f}</td><td class="n">{took / 1e6:.3f}</td><td class="line">{bar}</td>'
        f'<td class="error">{escape(span.error)}</td><td class="attributes">{_details(row)}</td></tr>\n'
    )


def _details(row: SpanRow) -> str:
    span = row.span
    parts = [_pairs(span.attributes)]
    parts += [f"{escape(event.name)} {_pairs(event.attributes)}" for event in span.events]
    parts += [
        f'link <a class="id" href="/debug/traces/{escape(link.trace_id)}">{escape(link.trace_id)}</a> {_pairs(link.attributes)}'
        for link in span.links
    ]
    return "<br>".join(part.strip() for part in parts if part.strip())


def _pairs(attributes: Iterable[tuple[str, str]]) -> str:
    return " ".join(f"{escape(name)}={escape(value)}" for name, value in attributes)


def _missing(unanswered: Mapping[str, str]) -> str:
    if not unanswered:
        return ""
    told = "; ".join(f"{escape(process)}: {escape(reason)}" for process, reason in unanswered.items())
    return f'<p class="error">Not answered, so spans may be missing: {told}</p>\n'


def _head(*columns: tuple[str, str]) -> str:
    return "<tr>" + "".join(f'<th class="{kind}">{name}</th>' for name, kind in columns) + "</tr>\n"


def _page(title: str, body: str) -> str:
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body>\n<h1>{escape(title)}</h1>\n{body}</body></html>\n"
    )
