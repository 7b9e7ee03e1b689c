"""The settings of TLS to etcd, of services and of commands."""

import asyncio
import shutil
import time
from pathlib import Path

import pytest

from libs.pem_files import Unusable
from libs.roles import STORAGE
from libs.runtime.etcd_store import etcd_store, etcd_tls_of
from libs.runtime.lifecycle import CannotRun, Lifecycle
from libs.runtime.service_config import ServiceConfig
from libs.telemetry.metrics import Metrics
from services.controller.etcd_users import __main__ as etcd_users
from services.controller.recovery import __main__ as recovery
from tests.support.certificates import make_authority
from tests.support.polling import until


def config(**given: str) -> ServiceConfig:
    return ServiceConfig(node_id=1, etcd=("localhost:1",), data_dir="/d", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"etcd_cert_file": "a"}, "PENSTOCK_ETCD_KEY_FILE is empty; expected both"),
        ({"etcd_key_file": "a", "etcd_ca_file": "b"}, "PENSTOCK_ETCD_CERT_FILE is empty; expected both"),
        ({"etcd_key_file": "a", "etcd_cert_file": "a"}, "PENSTOCK_ETCD_CA_FILE is empty; expected the authorities of etcd"),
    ],
)
def test_settings_that_are_not_all_of_it_are_refused(given: dict[str, str], words: str) -> None:
    assert words in str(config(**given).problem())
    with pytest.raises(Unusable, match="PENSTOCK_ETCD_"):
        etcd_tls_of({f"PENSTOCK_{name.upper()}": value for name, value in given.items()})


def test_an_authority_alone_is_all_of_it() -> None:
    assert config(etcd_ca_file="a").problem() is None
    assert config().problem() is None
    assert etcd_tls_of({}) is None


async def test_a_process_does_not_start_with_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match="no TLS to etcd with these files") as refusal:
        etcd_store(config(etcd_ca_file=f"{tmp_path}/ca.pem"), Lifecycle(), Metrics(STORAGE))
    assert "cannot be read" in str(refusal.value.facts["reason"])


async def test_a_process_follows_its_files_until_it_ends(tmp_path: Path) -> None:
    authority, lifecycle = make_authority(tmp_path), Lifecycle()
    store = etcd_store(config(etcd_ca_file=str(authority.certificate)), lifecycle, Metrics(STORAGE))
    following = [task for task in asyncio.all_tasks() if task.get_name() == "certificates for etcd"]
    assert len(following) == 1
    assert await lifecycle.drain()
    assert following[0].done()
    await store.close()


EXPIRY = "penstock_metadata_store_certificate_expiry_timestamp_seconds"


@pytest.mark.parametrize("with_authority", [False, True])
async def test_a_process_without_a_certificate_for_etcd_has_none_that_expires(tmp_path: Path, with_authority: bool) -> None:
    lifecycle, metrics = Lifecycle(), Metrics(STORAGE)
    ca = str(make_authority(tmp_path).certificate) if with_authority else ""
    store = etcd_store(config(etcd_ca_file=ca), lifecycle, metrics)
    assert metrics.registry.get_sample_value(EXPIRY) == 0
    await store.close()
    assert await lifecycle.drain()


async def test_a_metric_tells_until_when_the_certificate_for_etcd_is_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("libs.followed_files.LOOK_S", 0.01)
    authority, lifecycle, metrics = make_authority(tmp_path / "authority"), Lifecycle(), Metrics(STORAGE)
    own = tmp_path / "own.pem"

    def days_left() -> float:
        expires_at = metrics.registry.get_sample_value(EXPIRY)
        assert expires_at is not None
        return (expires_at - time.time()) / 86_400

    shutil.copy(authority.sign("first", "/CN=penstock-storage", days=9), own)
    files = {"etcd_ca_file": str(authority.certificate), "etcd_cert_file": str(own), "etcd_key_file": str(own)}
    store = etcd_store(config(**files), lifecycle, metrics)
    assert 8.9 < days_left() < 9.1
    own.write_bytes(b"half a file")
    await until(lambda: "new certificate for etcd not used" in caplog.text)
    assert 8.9 < days_left() < 9.1, "the former one is in force"
    shutil.copy(authority.sign("second", "/CN=penstock-storage", days=90), own)
    await until(lambda: days_left() > 10)
    assert 89.9 < days_left() < 90.1
    await store.close()
    assert await lifecycle.drain()


@pytest.mark.parametrize(
    ("main", "arguments"),
    [(etcd_users.main, ["set-up", "--etcd=localhost:1"]), (recovery.main, ["backup", "--etcd=localhost:1", "file"])],
)
def test_commands_refuse_them_in_a_sentence(
    main, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PENSTOCK_ETCD_CERT_FILE", "own.pem")
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"{arguments[0]}: PENSTOCK_ETCD_CA_FILE is empty")
    assert error.count("\n") == 1


def test_users_take_certificates(capsys: pytest.CaptureFixture[str]) -> None:
    assert etcd_users.main(["set-up", "--etcd=localhost:1"]) == 1
    assert "so it takes TLS" in capsys.readouterr().err
