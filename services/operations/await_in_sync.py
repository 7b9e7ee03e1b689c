"""The pause before a storage node is told to stop, until the replicas of the others are in sync."""

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from libs.host_port import with_port

PAUSE_S = 0.5
ANSWER_S = 3.0


def await_in_sync(host: str, port: int, timeout_s: float, say: Callable[[str], None]) -> None:
    """Returns when no partition is under-replicated, after `timeout_s` at the latest: the node has to stop in any case."""
    deadline = time.monotonic() + timeout_s
    while (problem := _problem(host, port)) and time.monotonic() < deadline:
        time.sleep(PAUSE_S)
    say(problem or "all replicas are in sync")


def _problem(host: str, port: int) -> str:
    """By the node's own /health, which answers 503 if anything is wrong. Empty if no process listens: then it needs no pause."""
    try:
        request = urllib.request.Request(f"http://{with_port(host, port)}/health", headers=_authorization())
        with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
            return _problem_of(answer.read())
    except urllib.error.HTTPError as error:
        return _problem_of(error.read())
    except urllib.error.URLError as error:
        return "" if isinstance(error.reason, ConnectionRefusedError) else f"/health is not answered: {error.reason}"
    except OSError as error:
        return f"/health is not answered: {error}"


def _authorization() -> dict[str, str]:
    """The token of the node's admin port, whose environment this program shares. Raises OSError."""
    file = os.environ.get("PENSTOCK_ADMIN_TOKEN_FILE")
    return {"Authorization": f"Bearer {Path(file).read_text(encoding='ascii').strip()}"} if file else {}


def _problem_of(text: bytes) -> str:
    try:
        count = int(json.loads(text)["counts"]["under_replicated"])
    except (ValueError, KeyError, TypeError):
        return "/health has no count of under-replicated partitions"
    return f"{count} partitions are under-replicated" if count else ""
