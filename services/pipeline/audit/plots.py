"""The plots of the report page as inline SVG: time slices of both sides, and the offsets of each partition."""

from collections.abc import Sequence
from html import escape
from typing import Any

WIDTH, MARGIN = 960, 90
PLOT = WIDTH - MARGIN - 10
BAR_HEIGHT = 140
ROW_HEIGHT = 26
TIMES_MAX = 240
COLOURS = {"same": "#3a7d44", "differs": "#c1292e", "absent": "#c9c5ba", "log": "#7a8fa6", "lake": "#235789"}


def time_plot(times: Sequence[dict[str, Any]]) -> str:
    """Pairs of bars; a slice whose sides differ is marked. More slices than fit are summed with their neighbours."""
    bins = _binned(times)
    most = max((max(each["log"], each["lake"]) for each in bins), default=1) or 1
    step = PLOT / max(1, len(bins))
    parts = []
    for at, each in enumerate(bins):
        left = MARGIN + at * step
        for side, offset in (("log", 0.1), ("lake", 0.5)):
            height = BAR_HEIGHT * each[side] / most
            title = f"{each['start']}: {each['log']:,} records in the log, {each['lake']:,} in the lake"
            parts.append(
                _box(left + step * offset, 10 + BAR_HEIGHT - height, max(0.6, step * 0.38), height, COLOURS[side], title)
            )
        if each["log"] != each["lake"]:
            parts.append(_box(left + step * 0.1, BAR_HEIGHT + 12, max(2, step * 0.78), 5, COLOURS["differs"], "the sides differ"))
    labels = [_text(MARGIN - 8, 20, f"{most:,}", "end"), _text(MARGIN - 8, BAR_HEIGHT + 10, "0", "end")]
    if bins:
        labels.append(_text(MARGIN, BAR_HEIGHT + 34, bins[0]["start"], "start"))
        labels.append(_text(WIDTH - 10, BAR_HEIGHT + 34, bins[-1]["start"], "end"))
    return _svg(BAR_HEIGHT + 44, "Records by time, in the log and in the lake", parts + labels)


def offset_plot(partitions: Sequence[dict[str, Any]], findings: Sequence[dict[str, Any]]) -> str:
    """One bar a partition, from its first to its last offset, with its findings on it."""
    parts = []
    for row, each in enumerate(partitions):
        top = 6 + row * ROW_HEIGHT
        name = f"{each['topic']}-{each['partition']}"
        own = [finding for finding in findings if (finding["topic"], finding["partition"]) == (each["topic"], each["partition"])]
        first = min([each["first"], *(finding["first"] for finding in own)])
        last = max([each["last"], *(finding["last"] for finding in own)])
        scale = PLOT / max(1, last - first + 1)
        parts.append(_text(MARGIN - 8, top + 13, name if len(name) < 14 else "…" + name[-13:], "end", name))
        size = max(0, each["last"] - each["first"] + 1) * scale
        title = f"{name}: offsets {each['first']} to {each['last']}"
        parts.append(_box(MARGIN + (each["first"] - first) * scale, top, size, 18, COLOURS["same"], title))
        for finding in sorted(own, key=lambda found: not found["explained"]):
            width = max(2.0, (finding["last"] - finding["first"] + 1) * scale)
            colour = COLOURS["absent" if finding["explained"] else "differs"]
            left = min(MARGIN + (finding["first"] - first) * scale, MARGIN + PLOT - width)
            parts.append(_box(left, top, width, 18, colour, finding["sentence"]))
    return _svg(12 + len(partitions) * ROW_HEIGHT, "Offsets of each partition", parts)


def _binned(times: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    width = -(-len(times) // TIMES_MAX) or 1
    groups = [times[at : at + width] for at in range(0, len(times), width)]
    return [
        {"start": group[0]["start"], "log": sum(each["log"] for each in group), "lake": sum(each["lake"] for each in group)}
        for group in groups
    ]


def _box(left: float, top: float, width: float, height: float, colour: str, title: str) -> str:
    place = f'x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {place} fill="{colour}"><title>{escape(title)}</title></rect>'


def _text(left: float, top: float, text: str, anchor: str, title: str = "") -> str:
    return (
        f'<text x="{left:.1f}" y="{top:.1f}" text-anchor="{anchor}">{escape(text)}<title>{escape(title or text)}</title></text>'
    )


def _svg(height: int, label: str, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'
