"""The pause before a storage node is told to stop, until the replicas of the others are in sync."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable

PAUSE_S = 0.5
ANSWER_S = 3.0


def await_in_sync(host: str, port: int, timeout_s: float, say: Callable[[str], None]) -> None:
    """Returns when no partition is under-replicated, after `timeout_s` at the latest: the node has to stop in any case."""
    deadline = time.monotonic() + timeout_s
    while (count := _under_replicated(host, port)) and time.monotonic() < deadline:
        time.sleep(PAUSE_S)
    say(f"{count} partitions are under-replicated" if count else "all replicas are in sync")


def _under_replicated(host: str, port: int) -> int:
    """By the node's own /health, which answers 503 if anything is wrong. 0 if it does not answer: then it needs no pause."""
    try:
        with urllib.request.urlopen(f"http://{host}:{port}/health", timeout=ANSWER_S) as answer:
            text = answer.read()
    except urllib.error.HTTPError as error:
        text = error.read()
    except OSError:
        return 0
    return int(json.loads(text)["counts"]["under_replicated"])
