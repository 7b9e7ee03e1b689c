"""The settings of TLS between processes."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from libs.cluster.records import GATEWAY, STORAGE
from libs.runtime.lifecycle import CannotRun, Lifecycle
from libs.runtime.peer_tls import peer_tls
from libs.runtime.service_config import ServiceConfig
from libs.telemetry.metrics import Metrics
from tests.support.certificates import Authority, certified


def config(**settings: Any) -> ServiceConfig:
    return ServiceConfig(node_id=1, etcd=("127.0.0.1:1",), data_dir="unused", **settings)


def with_files(authority: Authority, directory: Path, *uris: str, days: int = 2) -> ServiceConfig:
    files = certified(authority, directory, *uris, days=days)
    return config(rpc_tls_certificate=files.certificate, rpc_tls_key=files.key, rpc_tls_ca=files.authorities)


@pytest.mark.parametrize("missing", ["certificate", "key", "ca"])
def test_the_three_files_are_given_together(missing: str) -> None:
    given = {f"rpc_tls_{each}": "/a.pem" for each in ("certificate", "key", "ca") if each != missing}
    expected = (
        f"PENSTOCK_RPC_TLS_{missing.upper()} is empty; expected all three of PENSTOCK_RPC_TLS_CERTIFICATE, _KEY and _CA, or none"
    )
    assert config(**given).problem() == expected
    assert config().problem() is None


async def test_a_process_has_tls_where_its_settings_name_files(authority: Authority, tmp_path: Path) -> None:
    lifecycle = Lifecycle()
    assert peer_tls(config(), (STORAGE,), lifecycle, Metrics(STORAGE)) is None
    assert peer_tls(with_files(authority, tmp_path, "penstock:///storage/1"), (STORAGE,), lifecycle, Metrics(STORAGE)) is not None
    assert await lifecycle.drain()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "certificates"]


@pytest.mark.parametrize(("role", "uri"), [(GATEWAY, "penstock:///storage/1"), (STORAGE, "penstock:///storage/2")])
async def test_a_process_does_not_start_with_the_certificate_of_another(
    authority: Authority, tmp_path: Path, role: str, uri: str
) -> None:
    with pytest.raises(CannotRun, match="is another's") as refusal:
        peer_tls(with_files(authority, tmp_path, uri), (role,), Lifecycle(), Metrics(role))
    assert refusal.value.facts == {"names": uri, "expected": f"penstock://CLUSTER/{role}/1"}


async def test_a_process_of_two_services_needs_a_certificate_that_names_both(authority: Authority, tmp_path: Path) -> None:
    of_both = ("penstock:///storage/1", "penstock:///gateway/1")
    lifecycle = Lifecycle()
    assert peer_tls(with_files(authority, tmp_path, *of_both), (STORAGE, GATEWAY), lifecycle, Metrics(STORAGE)) is not None
    assert await lifecycle.drain()
    with pytest.raises(CannotRun, match="is another's") as refusal:
        peer_tls(with_files(authority, tmp_path, of_both[0]), (STORAGE, GATEWAY), Lifecycle(), Metrics(STORAGE))
    assert refusal.value.facts["expected"] == "penstock://CLUSTER/storage/1 and penstock://CLUSTER/gateway/1"


async def test_a_new_certificate_may_name_more_processes_and_must_name_this_one(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lifecycle = Lifecycle()
    tls = peer_tls(
        with_files(authority, tmp_path, "penstock:///storage/1", "penstock:///storage/2"), (STORAGE,), lifecycle, Metrics(STORAGE)
    )
    assert tls is not None
    first = tls.server.context
    certified(authority, tmp_path, *(f"penstock:///storage/{node}" for node in (1, 2, 3)))
    await tls.look()
    more = tls.server.context
    assert more is not first
    for uri in ("penstock:///storage/2", "penstock://of-another/storage/1"):
        certified(authority, tmp_path, uri)
        await tls.look()
        assert tls.server.context is more
    assert "new certificate of this process not used" in caplog.text
    assert await lifecycle.drain()


async def test_a_process_does_not_start_with_files_that_cannot_be_used(authority: Authority, tmp_path: Path) -> None:
    settings = with_files(authority, tmp_path, "penstock:///storage/1")
    await asyncio.to_thread(Path(settings.rpc_tls_key).write_text, "nothing", encoding="utf-8")
    with pytest.raises(CannotRun, match="no TLS with these files"):
        peer_tls(settings, (STORAGE,), Lifecycle(), Metrics(STORAGE))


async def test_a_metric_tells_until_when_the_certificate_in_force_is_valid(authority: Authority, tmp_path: Path) -> None:
    lifecycle, metrics, without = Lifecycle(), Metrics(STORAGE), Metrics(GATEWAY)
    name = "penstock_rpc_certificate_expiry_timestamp_seconds"
    assert peer_tls(config(), (GATEWAY,), lifecycle, without) is None
    assert without.registry.get_sample_value(name) == 0
    tls = peer_tls(with_files(authority, tmp_path, "penstock:///storage/1", days=9), (STORAGE,), lifecycle, metrics)
    assert tls is not None

    def days_left() -> float:
        expires_at = metrics.registry.get_sample_value(name)
        assert expires_at is not None
        return (expires_at - time.time()) / 86_400

    assert 8.9 < days_left() < 9.1
    with_files(authority, tmp_path, "penstock:///storage/1", days=90)
    await tls.look()
    assert 89.9 < days_left() < 90.1
    with_files(authority, tmp_path, "penstock:///storage/2", days=200)
    await tls.look()
    assert 89.9 < days_left() < 90.1, "the certificate of another is not used"
    assert await lifecycle.drain()
