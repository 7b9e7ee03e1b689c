"""Pages as a browser shows them: headless Chromium, Debian's `chromium-headless-shell`."""

import subprocess
from pathlib import Path
from typing import Final

BROWSER: Final = "chromium-headless-shell"
OPTIONS: Final = ("--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=15000")
WITHIN_S: Final = 120


def photograph(url: str, target: Path, width: int, height: int) -> None:
    """Writes a PNG of the page once its scripts have run. The size is in pixels."""
    _run(f"--window-size={width},{height}", f"--screenshot={target}", url)


def shown(url: str) -> str:
    """The page's document as its scripts have made it."""
    return _run("--dump-dom", url)


def size_of(picture: Path) -> tuple[int, int]:
    """Width and height of a PNG."""
    header = picture.read_bytes()[:24]
    assert header.startswith(b"\x89PNG\r\n\x1a\n"), picture
    return int.from_bytes(header[16:20], "big"), int.from_bytes(header[20:], "big")


def _run(*arguments: str) -> str:
    done = subprocess.run([BROWSER, *OPTIONS, *arguments], check=True, capture_output=True, encoding="utf-8", timeout=WITHIN_S)
    return done.stdout
