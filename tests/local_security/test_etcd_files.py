"""The certificates of a protected cluster's etcd: whose they are, and when they are made anew."""

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from libs.local_security.certificates import GATEWAY_FOR, has_key, key_to_pem, new_key
from libs.local_security.etcd_files import secure_etcd

NOW = datetime.now(UTC)
USERS = ("root", "penstock-gateway")


def certificate(file: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(file.read_bytes())


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_each_user_is_the_common_name_and_etcd_has_none(tmp_path: Path) -> None:
    secure_etcd(tmp_path, USERS, NOW)
    for user in USERS:
        own = certificate(tmp_path / f"etcd-{user}.pem")
        assert [name.value for name in own.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == [user]
        usages = own.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(usages) == [ExtendedKeyUsageOID.CLIENT_AUTH]
        own.verify_directly_issued_by(certificate(tmp_path / "etcd-ca.pem"))
    assert not certificate(tmp_path / "etcd.pem").subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}


def test_what_is_there_stays_until_it_is_due_or_its_authority_is_another(tmp_path: Path) -> None:
    secure_etcd(tmp_path, USERS, NOW)
    first = contents(tmp_path)
    secure_etcd(tmp_path, USERS, NOW + GATEWAY_FOR / 2)
    assert contents(tmp_path) == first
    secure_etcd(tmp_path, USERS, NOW + GATEWAY_FOR - timedelta(days=30))
    renewed = contents(tmp_path)
    assert {name for name in first if first[name] == renewed[name]} == {"etcd-ca.key", "etcd-ca.pem"}
    (tmp_path / "etcd-ca.key").unlink()
    secure_etcd(tmp_path, USERS, NOW)
    anew = contents(tmp_path)
    assert not any(anew[name] == renewed[name] for name in anew)


def test_an_etcd_that_runs_keeps_its_authority_whose_key_is_lost(tmp_path: Path) -> None:
    """It would take nobody for a user whom another authority vouches for."""
    secure_etcd(tmp_path, USERS, NOW)
    (tmp_path / "etcd-ca.key").unlink()
    before = contents(tmp_path)
    assert not secure_etcd(tmp_path, USERS, NOW, runs=True)
    assert contents(tmp_path) == before
    (tmp_path / "etcd-ca.key").write_bytes(key_to_pem(new_key()))
    before = contents(tmp_path)
    assert not secure_etcd(tmp_path, USERS, NOW, runs=True), "it is a key of another authority"
    assert contents(tmp_path) == before
    assert secure_etcd(tmp_path, USERS, NOW)
    assert contents(tmp_path)["etcd-ca.pem"] != before["etcd-ca.pem"]


def test_a_file_whose_key_is_damaged_is_made_anew(tmp_path: Path) -> None:
    secure_etcd(tmp_path, USERS, NOW)
    for name in ("etcd.pem", "etcd-root.pem"):
        file = tmp_path / name
        _, begins, rest = file.read_bytes().partition(b"-----BEGIN CERTIFICATE-----")
        file.write_bytes(begins + rest)
        assert secure_etcd(tmp_path, USERS, NOW)
        assert has_key(file.read_bytes(), certificate(file))


def test_without_users_there_is_nothing_to_make(tmp_path: Path) -> None:
    secure_etcd(tmp_path, (), NOW)
    assert not contents(tmp_path)
