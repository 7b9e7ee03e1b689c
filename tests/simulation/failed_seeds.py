"""The seeds that failed, at the end of what is printed: whoever reads no more than the end of a log can replay them."""

from collections.abc import Mapping


def print_failed(kind: str, failed: Mapping[int, str]) -> None:
    """`kind`: as `make simulate KIND=` has it. `failed`: each seed's first violation."""
    for seed, violation in failed.items():
        print(f"seed {seed} failed: {violation}\n  replay: make simulate KIND={kind} SEED={seed}")
