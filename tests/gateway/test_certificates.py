"""Certificates that change while the gateway runs."""

import shutil
import ssl
import time
from pathlib import Path

import pytest

from libs import followed_files
from libs.der import expires_at
from libs.runtime.lifecycle import CannotRun
from services.gateway.service import Gateway
from tests.gateway.conftest import Rig
from tests.gateway.limited_clients import produced
from tests.gateway.tls_rig import TLS_AT, shown, started
from tests.support.certificates import Authority, client_context, make_authority
from tests.support.polling import until

DAY_S = 86_400


@pytest.fixture
def broken(keystore: Path, tmp_path: Path) -> Path:
    path = tmp_path / "broken"
    path.write_bytes(keystore.read_bytes()[:300])
    return path


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed_files, "LOOK_S", 0.01)


@pytest.fixture
def looks_when_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two looks at a time would race for what has changed. A gateway has one."""
    monkeypatch.setattr(followed_files, "LOOK_S", 3600.0)


def replace(path: Path, by: Path) -> None:
    """As a whole, as `mv` does."""
    copy = path.with_suffix(".new")
    shutil.copy(by, copy)
    copy.rename(path)


def days_left(gateway: Gateway) -> float:
    return (gateway.meters.certificate_expires_at - time.time()) / DAY_S


async def test_a_new_certificate_is_shown_to_new_connections(
    rig: Rig, keystore: Path, authority: Authority, tmp_path: Path
) -> None:
    own = tmp_path / "gateway.pem"
    shutil.copy(keystore, own)
    gateway = await started(rig, own)
    assert 1 < days_left(gateway) <= 2
    before = await rig.client(TLS_AT, tls=client_context(authority))
    other = make_authority(tmp_path / "next", "/CN=the next authority")
    replace(own, other.sign("next", "/CN=next", days=9))
    await until(lambda: days_left(gateway) > 8)
    after = await rig.client(TLS_AT, tls=client_context(other))
    assert [await produced(before), await produced(after)] == [0, 0]
    with pytest.raises(ssl.SSLError):
        await rig.client(TLS_AT, tls=client_context(authority))


def mount(folder: Path, keystore: Path) -> None:
    """A Secret as Kubernetes mounts it: its files lead through a link, which is replaced when the Secret changes."""
    data = folder / f"..{keystore.stem}"
    data.mkdir(parents=True)
    for name, source in {"tls.crt": ".crt", "tls.key": ".key"}.items():
        shutil.copy(keystore.with_suffix(source), data / name)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(Path("..data", name))
    (folder / "..new").symlink_to(data.name)
    (folder / "..new").rename(folder / "..data")


async def test_a_secret_of_kubernetes_is_followed_as_it_is_mounted(
    rig: Rig, keystore: Path, authority: Authority, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    mount(secret, keystore)
    gateway = await started(rig, secret / "tls.crt", ssl_key_location=str(secret / "tls.key"))
    assert await produced(await rig.client(TLS_AT, tls=client_context(authority))) == 0
    mount(secret, authority.sign("renewed", "/CN=renewed", days=9))
    await until(lambda: days_left(gateway) > 8)
    assert await produced(await rig.client(TLS_AT, tls=client_context(authority))) == 0


async def test_a_broken_file_leaves_the_former_certificate_and_is_said_once(
    rig: Rig, keystore: Path, authority: Authority, tmp_path: Path, broken: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = tmp_path / "gateway.pem"
    shutil.copy(keystore, own)
    gateway = await started(rig, own)
    replace(own, broken)
    told = "new certificate of this gateway not used"
    await until(lambda: told in caplog.text)
    assert await produced(await rig.client(TLS_AT, tls=client_context(authority))) == 0
    assert gateway.listeners.certificates is not None
    await gateway.listeners.certificates.look()
    assert caplog.text.count(told) == 1
    replace(own, authority.sign("mended", "/CN=mended", days=5))
    await until(lambda: days_left(gateway) > 4)
    assert await produced(await rig.client(TLS_AT, tls=client_context(authority))) == 0


@pytest.mark.usefixtures("looks_when_told")
async def test_a_keystore_that_was_removed_is_said_once_until_it_is_back(
    rig: Rig, keystore: Path, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = tmp_path / "gateway.pem"
    shutil.copy(keystore, own)
    gateway = await started(rig, own)
    files = gateway.listeners.certificates
    assert files is not None
    told = "new certificate of this gateway not used"
    for count in (1, 2):
        own.rename(tmp_path / "away")
        for _ in range(3):
            await files.look()
        assert caplog.text.count(told) == count
        assert await produced(await rig.client(TLS_AT, tls=client_context(authority))) == 0
        (tmp_path / "away").rename(own)
        await files.look()
    lines = [line for line in caplog.records if line.getMessage() == told]
    assert {line.__dict__["fields"]["reason"] for line in lines} == {f"{own} cannot be read: No such file or directory"}


@pytest.mark.usefixtures("looks_when_told")
async def test_a_new_truststore_decides_about_new_clients(rig: Rig, keystore: Path, authority: Authority, tmp_path: Path) -> None:
    trust = tmp_path / "trust.pem"
    shutil.copy(authority.certificate, trust)
    gateway = await started(rig, keystore, ssl_truststore_location=str(trust), ssl_client_auth="required")
    other = make_authority(tmp_path / "other", "/CN=another authority")
    bob = client_context(authority, other.sign("bob", "/CN=bob", names=""))
    bob.maximum_version = ssl.TLSVersion.TLSv1_2  # with 1.3 a client hears later that it is refused
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await rig.client(TLS_AT, tls=bob)
    server = gateway.listeners.certificates
    replace(trust, other.certificate)
    assert server is not None
    await server.look()
    assert await produced(await rig.client(TLS_AT, tls=bob)) == 0
    assert [connection["principal"] for connection in shown(gateway)] == ["User:CN=bob"]


def test_the_end_of_a_validity_is_read_in_both_forms(authority: Authority) -> None:
    for days in (2, 365 * 40):  # the second is written with four digits of the year
        keystore = authority.sign("valid", "/CN=valid", days=days)
        der = ssl.PEM_cert_to_DER_cert(keystore.with_suffix(".crt").read_text(encoding="utf-8"))
        assert abs(expires_at(der) - time.time() - days * DAY_S) < 600


async def test_a_keystore_without_a_certificate_ends_the_start(rig: Rig, keystore: Path, tmp_path: Path) -> None:
    alone = tmp_path / "key.pem"
    shutil.copy(keystore.with_suffix(".key"), alone)
    with pytest.raises(CannotRun, match="TLS cannot be served"):
        await started(rig, alone)
