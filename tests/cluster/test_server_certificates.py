"""What a process learns of the certificates that etcd's members show."""

import asyncio
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.cluster.etcd import server_certificates
from libs.cluster.etcd.etcd_tls import EtcdTls, TlsFiles
from libs.cluster.etcd.server_certificates import ServerCertificates
from libs.runtime.etcd_store import etcd_store
from libs.runtime.lifecycle import Lifecycle
from libs.runtime.service_config import ServiceConfig
from libs.telemetry.metrics import Metrics
from tests.cluster.conftest import EtcdServer
from tests.support.certificates import Authority, make_authority
from tests.support.polling import until

NOBODY = "127.0.0.1:1"
METRIC = "penstock_metadata_store_server_certificate_expiry_timestamp_seconds"


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_certificates, "LOOK_S", 0.05)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return make_authority(tmp_path / "certificates")


@pytest.fixture
def etcd(etcd_binary: str, tmp_path: Path, authority: Authority) -> Iterator[EtcdServer]:
    server = EtcdServer(etcd_binary, tmp_path, authority)
    server.start()
    yield server
    server.close()


def tls_of(authority: Authority) -> EtcdTls:
    own = str(authority.sign("user", "/CN=penstock-storage"))
    return EtcdTls(TlsFiles(str(authority.certificate), own, own))


def days_left(servers: ServerCertificates) -> float:
    return (servers.expires_at - time.time()) / 86_400


async def until_seen(servers: ServerCertificates, days: float) -> None:
    """Looks again and again until the earliest end is so far away."""
    looking = asyncio.ensure_future(servers.follow())
    try:
        await until(lambda: abs(days_left(servers) - days) < 0.1)
    finally:
        looking.cancel()


async def test_the_earliest_end_is_told_and_a_new_certificate_is_seen(
    etcd: EtcdServer, authority: Authority, tmp_path: Path
) -> None:
    servers = ServerCertificates([etcd.endpoint, NOBODY], tls_of(authority))
    assert servers.expires_at == 0.0
    await until_seen(servers, 2)
    renewed = authority.sign("renewed", "/O=etcd", days=90)
    shutil.copy(renewed, authority.directory / "etcd.pem")
    await until_seen(servers, 90)
    etcd.stop()
    await servers.look()
    assert 89 < days_left(servers) < 91, "a member that is away counts with what it showed"
    assert "rejected connection" not in (tmp_path / "etcd.log").read_text(encoding="utf-8")


async def test_a_certificate_that_nobody_trusts_any_more_is_seen(etcd: EtcdServer, authority: Authority, tmp_path: Path) -> None:
    """So is one that has expired: a process that starts then tells of it."""
    servers = ServerCertificates([etcd.endpoint], tls_of(make_authority(tmp_path / "others")))
    await until_seen(servers, 2)


async def test_a_process_tells_it_by_a_metric(etcd: EtcdServer, authority: Authority) -> None:
    own = str(authority.sign("user", "/CN=penstock-storage"))
    files = {"etcd_ca_file": str(authority.certificate), "etcd_cert_file": own, "etcd_key_file": own}
    config = ServiceConfig(node_id=1, etcd=(etcd.endpoint,), data_dir="/d", **files)  # type: ignore[arg-type]
    lifecycle, metrics = Lifecycle(), Metrics("storage")
    store = etcd_store(config, lifecycle, metrics)
    await store.range("/penstock/")
    await until(lambda: metrics.registry.get_sample_value(METRIC) != 0)
    seen = metrics.registry.get_sample_value(METRIC)
    assert seen is not None
    assert 1.9 < (seen - time.time()) / 86_400 < 2.1
    await store.close()
    assert await lifecycle.drain()
