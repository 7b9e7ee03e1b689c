"""Two kinds of plots as inline SVG: pairs of bars with whiskers, and lines over two logarithmic axes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 920
LABELS = 290
BAR, GAP = 14, 8
MARGIN = 24


@dataclass(frozen=True)
class Bar:
    """`side` is a CSS class. The whisker goes from `low` to `high`."""

    side: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Line:
    """`side` and `kind` are CSS classes. Points are (x, y, whether the mark is full)."""

    side: str
    kind: str
    name: str
    points: Sequence[tuple[float, float, bool]]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _text(x: float, y: float, words: str, anchor: str = "start", of: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{of}">{escape(words)}</text>'


def _svg(height: float, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}"><title>{escape(title)}</title>'
        + "".join(parts)
        + "</svg>"
    )


def bars(title: str, rows: Sequence[tuple[str, Sequence[Bar]]], *, reference: float | None = None) -> str:
    """Horizontal bars from 0 on, a row for each case. `reference`: where a vertical line stands."""
    longest = max(
        [bar.high for _, pair in rows for bar in pair] + [bar.value for _, pair in rows for bar in pair] + [reference or 0]
    )
    scale = (WIDTH - LABELS - 90) / (longest or 1)
    parts, y = [], 8.0
    for label, pair in rows:
        parts.append(_text(LABELS - 10, y + len(pair) * (BAR + 2) / 2 + 4, label, "end"))
        for bar in pair:
            middle, end = y + BAR / 2, LABELS + bar.value * scale
            parts.append(
                f'<rect x="{LABELS}" y="{y:.1f}" width="{bar.value * scale:.1f}" height="{BAR}" class="{escape(bar.side)}"/>'
            )
            low, high = LABELS + bar.low * scale, LABELS + bar.high * scale
            caps = "".join(f"M{x:.1f} {middle - 4:.1f}v8" for x in (low, high))
            if low < high:
                parts.append(f'<path d="M{low:.1f} {middle:.1f}H{high:.1f}{caps}" class="whisker"/>')
            parts.append(_text(max(end, high) + 6, middle + 4, _number(bar.value), of="value"))
            y += BAR + 2
        y += GAP
    if reference is not None:
        x = LABELS + reference * scale
        parts.append(f'<path d="M{x:.1f} 0V{y:.1f}" class="reference"/>')
    return _svg(y, title, parts)


def _decades(least: float, greatest: float) -> list[float]:
    """1, 2 and 5 times powers of ten, from the last one at or below `least` to the first at or above `greatest`."""
    steps = [
        factor * 10.0**power
        for power in range(math.floor(math.log10(least)) - 1, math.ceil(math.log10(greatest)) + 2)
        for factor in (1, 2, 5)
    ]
    first = max(step for step in steps if step <= least)
    last = min(step for step in steps if step >= greatest)
    return [step for step in steps if first <= step <= last]


def lines(title: str, x_words: str, y_words: str, drawn: Sequence[Line]) -> str:
    """Both axes are logarithmic, so all values are above 0."""
    height, left, bottom, right = 420.0, 70.0, 372.0, WIDTH - 190.0
    points = [point for line in drawn for point in line.points]
    across, up = ([x for x, _, _ in points], [max(y, 1e-6) for _, y, _ in points])
    x_ticks, y_ticks = _decades(min(across), max(across)), _decades(min(up), max(up))

    def place(value: float, ticks: Sequence[float], start: float, end: float) -> float:
        span = math.log(ticks[-1] / ticks[0]) or 1.0
        return start + (end - start) * math.log(max(value, 1e-6) / ticks[0]) / span

    parts = []
    for tick in x_ticks:
        x = place(tick, x_ticks, left, right)
        parts.append(f'<path d="M{x:.1f} {MARGIN}V{bottom}" class="grid"/>' + _text(x, bottom + 18, _number(tick), "middle"))
    for tick in y_ticks:
        y = place(tick, y_ticks, bottom, MARGIN)
        parts.append(f'<path d="M{left} {y:.1f}H{right}" class="grid"/>' + _text(left - 8, y + 4, _number(tick), "end"))
    parts.append(_text((left + right) / 2, bottom + 40, x_words, "middle") + _text(left - 60, 14, y_words))
    for index, line in enumerate(drawn):
        classes = f"{escape(line.side)} {escape(line.kind)}"
        places = [
            (place(x, x_ticks, left, right), place(y, y_ticks, bottom, MARGIN), is_full) for x, y, is_full in sorted(line.points)
        ]
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y, _ in places)
        parts.append(f'<path d="{path}" class="line {classes}"/>')
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="{classes}{"" if is_full else " hollow"}"/>'
            for x, y, is_full in places
        ]
        y = MARGIN + 10 + 22 * index
        parts.append(f'<path d="M{right + 16} {y}h26" class="line {classes}"/>' + _text(right + 48, y + 4, line.name))
    return _svg(height, title, parts)
