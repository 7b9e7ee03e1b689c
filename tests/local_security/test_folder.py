"""The files of a protected cluster: who may read them, what vouches for what, and when they are made anew."""

import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from libs.local_security import certificates
from libs.local_security.certificates import AUTHORITY_FOR, GATEWAY_FOR
from libs.local_security.folder import Secured, Unusable, secure

NOW = datetime.now(UTC)
SERVERS = "kafka.example.net:9092"


def made(folder: Path, *, after: timedelta = timedelta(), host: str = "kafka.example.net", is_new: bool = True) -> Secured:
    return secure(folder / "security", [host], SERVERS, NOW + after, is_new=is_new)


def certificate(file: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(file.read_bytes())


def shake_hands(authority: Path, keystore: Path, host: str) -> None:
    """As a client that trusts the authority, by the strict rules of RFC 5280. Raises ssl.SSLError."""
    trusting = ssl.create_default_context(cafile=str(authority))
    trusting.verify_flags |= ssl.VERIFY_X509_STRICT
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(keystore)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server, server_hostname=host)
    server = serving.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(2):
        for each in (client, server):
            try:
                each.do_handshake()
            except ssl.SSLWantReadError:
                pass


def test_nobody_else_may_read_what_is_made(tmp_path: Path) -> None:
    made(tmp_path)
    folder = tmp_path / "security"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in folder.iterdir()} == dict.fromkeys(
        ("ca.key", "ca.pem", "gateway.pem", "first-users", "admin-token", "admin-password", "client.properties", "kcat.conf"),
        "0o600",
    )


@pytest.mark.parametrize("host", ["kafka.example.net", "localhost", "127.0.0.1", "::1"])
def test_a_client_that_trusts_the_authority_trusts_the_gateway_by_each_of_its_names(tmp_path: Path, host: str) -> None:
    files = made(tmp_path)
    shake_hands(files.authority, files.keystore, host)


def test_another_name_or_another_authority_is_not_trusted(tmp_path: Path) -> None:
    files, others = made(tmp_path), made(tmp_path / "others")
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(files.authority, files.keystore, "elsewhere.example.net")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(others.authority, files.keystore, "localhost")


def test_what_is_there_stays(tmp_path: Path) -> None:
    first = made(tmp_path)
    before = {path: path.read_bytes() for path in (tmp_path / "security").iterdir()}
    assert made(tmp_path, after=GATEWAY_FOR / 2, is_new=False) == first
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(
    ("lost", "is_another"), [(("ca.pem",), False), (("gateway.pem",), False), (("ca.key",), True), (("ca.key", "ca.pem"), True)]
)
def test_who_loses_the_authoritys_key_hears_that_clients_need_another_certificate(
    tmp_path: Path, lost: tuple[str, ...], is_another: bool
) -> None:
    first = made(tmp_path)
    assert not first.is_another_authority
    former = tmp_path / "former.pem"
    former.write_bytes(first.authority.read_bytes())
    for name in lost:
        (tmp_path / "security" / name).unlink()
    files = made(tmp_path, is_new=False)
    assert files.is_another_authority == is_another
    if is_another:
        with pytest.raises(ssl.SSLCertVerificationError):
            shake_hands(former, files.keystore, "localhost")
    else:
        shake_hands(former, files.keystore, "localhost")


def test_a_certificate_is_renewed_when_a_third_of_its_life_is_left(tmp_path: Path) -> None:
    files = made(tmp_path, after=-GATEWAY_FOR * 0.7)
    former = certificate(files.keystore)
    assert made(tmp_path, is_new=False).renewed
    assert certificate(files.keystore).not_valid_after_utc > former.not_valid_after_utc
    shake_hands(files.authority, files.keystore, "localhost")


def test_a_renewed_authority_is_the_same_to_those_who_trust_the_former(tmp_path: Path) -> None:
    files = made(tmp_path, after=-AUTHORITY_FOR * 0.7)
    former = tmp_path / "former.pem"
    former.write_bytes(files.authority.read_bytes())
    assert made(tmp_path, is_new=False).renewed
    assert certificate(files.authority).not_valid_after_utc > certificate(former).not_valid_after_utc
    for authority in (former, files.authority):
        shake_hands(authority, files.keystore, "localhost")


def test_a_certificate_of_the_future_is_made_anew_after_a_clock_was_set_back(tmp_path: Path) -> None:
    files = made(tmp_path, after=GATEWAY_FOR)
    assert made(tmp_path, is_new=False).renewed
    shake_hands(files.authority, files.keystore, "localhost")


def test_another_host_gets_a_certificate_with_its_name(tmp_path: Path) -> None:
    made(tmp_path)
    files = made(tmp_path, host="10.0.0.7", is_new=False)
    assert files.renewed
    shake_hands(files.authority, files.keystore, "10.0.0.7")


@pytest.mark.parametrize("damaged", [b"", b"-----BEGIN CERTIFICATE-----\nx"])
def test_a_damaged_certificate_is_made_anew_and_a_damaged_key_is_refused(tmp_path: Path, damaged: bytes) -> None:
    files = made(tmp_path)
    for file in (files.keystore, files.authority):
        file.write_bytes(damaged)
    made(tmp_path, is_new=False)
    shake_hands(files.authority, files.keystore, "localhost")
    (tmp_path / "security" / "ca.key").write_bytes(damaged)
    with pytest.raises(Unusable, match=r"ca\.key cannot be read .* put a copy back"):
        made(tmp_path, is_new=False)


def test_a_password_that_is_lost_is_not_made_up(tmp_path: Path) -> None:
    files = made(tmp_path)
    password = files.first_users.read_text(encoding="utf-8").partition("password=")[2].rstrip("]\n")
    assert len(password) >= 32
    assert f'username="admin" password="{password}";' in files.java.read_text(encoding="utf-8")
    assert f"sasl.password={password}\n" in files.librdkafka.read_text(encoding="utf-8")
    assert f"bootstrap.servers={SERVERS}\n" in files.librdkafka.read_text(encoding="utf-8")
    files.first_users.write_text("# another line\nSCRAM-SHA-512=[name=admin,password=mine]", encoding="utf-8")
    made(tmp_path, is_new=False)
    assert "sasl.password=mine\n" in files.librdkafka.read_text(encoding="utf-8")
    files.first_users.write_text("admin", encoding="utf-8")
    with pytest.raises(Unusable, match=r"first-users has no line of the form SCRAM-SHA-512=\[name=admin"):
        made(tmp_path)
    files.first_users.unlink()
    assert not made(tmp_path, is_new=False).knows_password
    assert made(tmp_path).knows_password


def test_a_key_of_the_authority_that_is_encrypted_is_named(tmp_path: Path) -> None:
    made(tmp_path)
    file = tmp_path / "security" / "ca.key"
    key = certificates.key_of_pem(file.read_bytes())
    encryption = serialization.BestAvailableEncryption(b"password")
    file.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))
    with pytest.raises(Unusable, match=r"ca\.key cannot be read \(the key is encrypted\); put a copy back"):
        made(tmp_path)


def test_a_file_of_the_first_user_that_is_no_text_is_named(tmp_path: Path) -> None:
    made(tmp_path)
    (tmp_path / "security" / "first-users").write_bytes(b"\xff\xfe")
    with pytest.raises(Unusable, match=r"first-users has no line of the form SCRAM-SHA-512=\[name=admin"):
        made(tmp_path)


def test_a_certificate_without_its_key_is_made_anew(tmp_path: Path) -> None:
    keystore = made(tmp_path).keystore
    keystore.write_bytes(certificates.to_pem(certificate(keystore)))
    assert made(tmp_path).renewed
    assert certificates.has_key(keystore.read_bytes(), certificate(keystore))
    assert not made(tmp_path).renewed


def test_a_name_beyond_ascii_is_in_the_certificate_as_clients_look_for_it(tmp_path: Path) -> None:
    files = made(tmp_path, host="kafka.bücher.example")
    shake_hands(files.authority, files.keystore, "kafka.xn--bcher-kva.example")
    with pytest.raises(Unusable, match="cannot stand in a certificate; give an address, or a name as DNS has it"):
        made(tmp_path, host="ü" * 64 + ".example")


def test_the_token_of_admin_ports_stays(tmp_path: Path) -> None:
    made(tmp_path)
    token = (tmp_path / "security" / "admin-token").read_text(encoding="ascii")
    assert len(token.strip()) == 64
    made(tmp_path)
    assert (tmp_path / "security" / "admin-token").read_text(encoding="ascii") == token
