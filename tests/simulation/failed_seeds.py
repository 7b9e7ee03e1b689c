"""The seeds that failed: how they are printed, and `failed_seeds.json`, from which CI replays what ever found something.

`make hunt` writes a seed into the file when it fails. It stays there after the fault is mended.
"""

import json
from collections.abc import Mapping
from pathlib import Path

REMEMBERED = Path(__file__).parent / "failed_seeds.json"
TEXT_MAX = 300


def print_failed(kind: str, failed: Mapping[int, str]) -> None:
    """Prints last what failed, so that the end of a log is enough to replay it.

    `kind`: as `make simulate KIND=` has it. `failed`: each seed's first violation.
    """
    for seed, violation in failed.items():
        print(f"seed {seed} failed: {violation}\n  replay: make simulate KIND={kind} SEED={seed}")


def failed_seeds(file: Path = REMEMBERED) -> dict[str, dict[int, str]]:
    """By kind: each seed that ever failed, and what it showed."""
    kinds: dict[str, dict[str, str]] = json.loads(file.read_text(encoding="utf-8"))
    return {kind: {int(seed): shown for seed, shown in seeds.items()} for kind, seeds in kinds.items()}


def remember(kind: str, failed: Mapping[int, str], file: Path = REMEMBERED) -> None:
    """Adds what failed to the file. A seed that it has keeps its first story."""
    seeds = failed_seeds(file)
    of_kind = seeds.setdefault(kind, {})
    for seed, violation in failed.items():
        of_kind.setdefault(seed, " ".join(violation.split())[:TEXT_MAX])
    ordered = {kind: dict(sorted(seeds[kind].items())) for kind in sorted(seeds)}
    file.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
