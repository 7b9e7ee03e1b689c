"""Fetches that leave by sendfile beside the same ones by read and write: two clusters of Penstock, whose gateways differ in one
setting.

What counts is `cpu_s_per_gb` and `switches_per_gb` of their costs. Kafka's, which sends all by sendfile, stand in `lean-fetch-*`.
"""

from contextlib import AbstractContextManager
from pathlib import Path

from tests.bench.cases import KIB, Case
from tests.bench.lean.cases import fetch_case
from tests.bench.sides import Side
from tests.bench.systems import start_penstock
from tests.support.requirements import ROOT

READ = "read"
SETTING = "PENSTOCK_SENDFILE_BYTES_MIN"
ALL, NONE = "1", str(1 << 30)
"""As values of the setting: what is sent by sendfile."""
SIZES = {
    "16KB": (16 * KIB, 16 * KIB),
    "64KB": (64 * KIB, 16 * KIB),
    "256KB": (256 * KIB, 128 * KIB),
    "1MB": (1024 * KIB, 128 * KIB),
}
"""(bytes of a fetch, bytes of a batch)"""


def start_sending(durability: str, checkout: Path = ROOT, name: str = "penstock") -> AbstractContextManager[Side]:
    return start_penstock(durability, checkout, name, environment_of={"gateway-1": {SETTING: ALL}})


def start_reading(durability: str) -> AbstractContextManager[Side]:
    return start_penstock(durability, name=READ, environment_of={"gateway-1": {SETTING: NONE}})


def sendfile_cases() -> list[Case]:
    return [
        fetch_case(f"sendfile-{label}-{connections}conn", max_bytes, batch_size, connections)
        for label, (max_bytes, batch_size) in SIZES.items()
        for connections in (1, 4)
    ]
