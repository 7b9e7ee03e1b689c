"""Damage that a read meets is answered, told once for each place, and keeps nothing else from going on."""

from pathlib import Path

import pytest

from libs.wire.errors import ErrorCode
from tests.storage.cluster import StorageCluster, batch


async def test_a_place_that_cannot_be_read_is_reported_once(cluster: StorageCluster, caplog: pytest.LogCaptureFixture) -> None:
    damaged, sound = await cluster.topic("damaged"), await cluster.topic("sound")
    for topic in (damaged, sound):
        for _ in range(4):
            assert (await cluster.append(topic, batch(b"x" * 100))).error == 0
    path = Path(cluster.config.directories[0]) / "damaged-0" / f"{0:020d}.log"
    size = path.stat().st_size // 4
    for place in (1, 3):
        with path.open("r+b") as file:
            file.seek(place * size + 8)
            file.write(bytes(4))
    reports = []
    for _ in range(3):
        assert (await cluster.fetch(damaged, 2)).error == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await cluster.fetch(sound, 2)).error == 0
        reports.append([record for record in caplog.records if "read failed" in record.message])
    assert [len(lines) for lines in reports] == [1, 1, 1]
    assert f"no batch at position {size}" in str(reports[0][0].__dict__["fields"]["reason"])
    assert (await cluster.fetch(damaged, 0, max_bytes=size)).error == 0
    assert (await cluster.append(damaged, batch(b"y"))).base_offset == 4
