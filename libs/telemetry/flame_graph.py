"""A flame graph: a picture of a profile, as one SVG file that any browser shows (https://www.brendangregg.com/flamegraphs.html).

A box is a function; above it are those that it called. Its width is the CPU time in it, with what it called. The order from left
to right is alphabetical and means nothing. A box has its numbers as a tooltip, and a click makes it as wide as the picture.
"""

from collections.abc import Iterator
from hashlib import blake2s
from typing import Final
from xml.sax.saxutils import escape

from libs.telemetry.cpu_profile import Profile

WIDTH: Final = 1200
BAR: Final = 17
"""The height of a box, in pixels."""
TOP: Final = 44
"""The height of title and subtitle."""
NARROWEST: Final = 0.3
"""A box that is narrower is left out, with those above it. They could not be seen."""
CHARACTER: Final = 7.0
"""The width of a letter."""

_SCRIPT: Final = """
const boxes = [...document.querySelectorAll("g.box")];
function zoom(left, width) {
  for (const box of boxes) {
    const x = (box.dataset.x - left) / width * WIDTH, w = box.dataset.w / width * WIDTH;
    const shown = x + w > 0.01 && x < WIDTH - 0.01;
    box.style.display = shown ? "" : "none";
    if (!shown) continue;
    const from = Math.max(x, 0), to = Math.min(x + w, WIDTH);
    const rect = box.querySelector("rect"), text = box.querySelector("text");
    rect.setAttribute("x", from); rect.setAttribute("width", Math.max(to - from - 0.5, 0.1));
    text.setAttribute("x", from + 3);
    const room = Math.floor((to - from - 6) / CHARACTER), full = box.dataset.name;
    const name = room >= full.length ? full : full.slice(full.indexOf(":") + 1);
    text.textContent = room >= name.length ? name : room > 2 ? name.slice(0, room - 1) + "…" : "";
  }
}
for (const box of boxes) box.addEventListener("click", () => zoom(+box.dataset.x, +box.dataset.w));
document.getElementById("all").addEventListener("click", () => zoom(0, WIDTH));
"""


class _Node:
    """A function, called by those below it. `ns`: its CPU time, with what it called."""

    __slots__ = ("children", "ns")

    def __init__(self) -> None:
        self.ns = 0
        self.children: dict[str, _Node] = {}


def draw(profile: Profile, process: str) -> str:
    """The text of the SVG file."""
    root = _tree(profile)
    boxes = list(_boxes("all", root, 0.0, WIDTH / max(root.ns, 1), 0)) if root.ns else []
    depth = max((level for _, _, _, level, _ in boxes), default=0)
    height = TOP + (depth + 1) * BAR + 10
    script = _SCRIPT.replace("WIDTH", str(WIDTH)).replace("CHARACTER", str(CHARACTER))
    cpu_s = profile.cpu_ns / 1e9
    subtitle = (
        f"CPU time {cpu_s:.3f} s in {profile.seconds:.1f} s ({cpu_s / max(profile.seconds, 0.001):.1%} of a core), "
        f"{profile.samples} samples. Click a box to widen it; click this line for all."
    )
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            'font-family="monospace" font-size="11">\n'
            "<style>g.box { cursor: pointer } g.box:hover rect { stroke: #000; stroke-width: 1 } text { fill: #111 }</style>\n"
            f'<rect width="{WIDTH}" height="{height}" fill="#fffdf7"/>\n'
            f'<text x="{WIDTH / 2}" y="18" font-size="15" text-anchor="middle">{escape(process)}</text>\n'
            f'<text id="all" x="{WIDTH / 2}" y="36" text-anchor="middle">{escape(subtitle)}</text>\n',
            *(_box(*box, height=height, total_ns=root.ns) for box in boxes),
            f"<script><![CDATA[{script}]]></script>\n</svg>\n",
        ]
    )


def _tree(profile: Profile) -> _Node:
    root = _Node()
    for stack, ns in profile.stacks.items():
        node = root
        node.ns += ns
        for name in stack:
            node = node.children.setdefault(name, _Node())
            node.ns += ns
    return root


def _boxes(name: str, node: _Node, x: float, scale: float, level: int) -> Iterator[tuple[str, float, float, int, int]]:
    """(name, left edge, width, level from the bottom, nanoseconds)"""
    width = node.ns * scale
    if width < NARROWEST:
        return
    yield name, x, width, level, node.ns
    for child_name, child in sorted(node.children.items()):
        yield from _boxes(child_name, child, x, scale, level + 1)
        x += child.ns * scale


def _box(name: str, x: float, width: float, level: int, ns: int, *, height: int, total_ns: int) -> str:
    y = height - (level + 1) * BAR - 5
    room, quoted = int((width - 6) / CHARACTER), escape(name, {'"': "&quot;"})
    label = name if room >= len(name) else name.partition(":")[2] or name  # without the module
    shown = label if room >= len(label) else f"{label[: room - 1]}…" if room > 2 else ""
    return (
        f'<g class="box" data-x="{x:.2f}" data-w="{width:.2f}" data-name="{quoted}">'
        f"<title>{quoted}: {ns / 1e6:.1f} ms, {ns / total_ns:.1%}</title>"
        f'<rect x="{x:.2f}" y="{y}" width="{max(width - 0.5, 0.1):.2f}" height="{BAR - 1}" rx="1" fill="{_colour(name)}"/>'
        f'<text x="{x + 3:.2f}" y="{y + 12}">{escape(shown)}</text></g>\n'
    )


def _colour(name: str) -> str:
    """Warm for our own code, cool for that of others. A module has one colour in all pictures."""
    shade = blake2s(name.partition(":")[0].encode(), digest_size=2).digest()
    hue = 20 + shade[0] % 35 if name.startswith(("services.", "libs.")) else 190 + shade[0] % 40
    return f"hsl({hue},{70 + shade[1] % 20}%,{66 + shade[1] % 9}%)"
