"""The number that tells one start of a process from the next."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from libs.clock import WallMs
from libs.commitlog.files.filesystem import OsFileSystem
from libs.runtime.identity import IncarnationDamaged, next_incarnation

ROOT = Path(__file__).resolve().parents[2]
NOWHERE = "127.0.0.1:9"


def test_an_incarnation_rises_even_when_the_clock_goes_back(tmp_path: Path) -> None:
    fs, data_dir = OsFileSystem(), str(tmp_path / "made")
    first = next_incarnation(fs, data_dir, WallMs(5000))
    second = next_incarnation(fs, data_dir, WallMs(1000))
    third = next_incarnation(fs, data_dir, WallMs(9000))
    assert (first, second, third) == (5000, 5001, 9000)
    Path(f"{data_dir}/incarnation").write_text("nonsense", encoding="utf-8")
    with pytest.raises(IncarnationDamaged, match="does not hold a number"):
        next_incarnation(fs, data_dir, WallMs(9000))


@pytest.mark.parametrize("service", ["controller", "gateway", "storage"])
async def test_every_service_is_newer_than_its_former_life_whatever_the_clock_says(service: str, tmp_path: Path) -> None:
    last = 1 << 50  # far in the future
    file = tmp_path / "incarnation"
    file.write_text(f"{last}\n", encoding="utf-8")
    env = os.environ | {
        "PENSTOCK_NODE_ID": "1",
        "PENSTOCK_DATA_DIR": str(tmp_path),
        "PENSTOCK_ETCD": NOWHERE,
        "PENSTOCK_RPC_UNIX": str(tmp_path / "s"),
        "PENSTOCK_PORT_BASE": "1",
    }
    command = (sys.executable, "-m", f"services.{service}")
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, env=env, stderr=asyncio.subprocess.DEVNULL)
    try:
        async with asyncio.timeout(60):
            while file.read_text(encoding="utf-8") == f"{last}\n" and process.returncode is None:  # noqa: ASYNC110 - a file announces nothing
                await asyncio.sleep(0.01)
        assert file.read_text(encoding="utf-8") == f"{last + 1}\n"
    finally:
        process.kill()
        await process.wait()
