"""Files that TLS is served with, and the sentences for those that it cannot be served with."""

from pathlib import Path

import pytest

from libs.pem_files import Unusable
from libs.rpc.transport.tls_server import TlsSettings, server_context
from tests.support.certificates import Authority


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file"),
        (b"\xfe\xed\xfe\xed\0", "is a JKS keystore. Only PEM is served"),
        (b"\x30\x82\x01\x01", "is a PKCS12 keystore, or DER"),
        (b"hello", "is not a PEM file"),
        (b"-----BEGIN NONSENSE-----\n", "has no usable key and certificate"),
    ],
)
def test_a_keystore_that_cannot_be_served_is_refused_with_a_sentence(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "keystore"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(Unusable, match=words):
        server_context(TlsSettings(str(path)))


def test_a_key_of_another_certificate_is_refused(authority: Authority, keystore: Path, tmp_path: Path) -> None:
    mixed = tmp_path / "mixed.pem"
    other = authority.sign("other", "/CN=other")
    mixed.write_bytes(other.with_suffix(".key").read_bytes() + keystore.with_suffix(".crt").read_bytes())
    with pytest.raises(Unusable, match="key values mismatch"):
        server_context(TlsSettings(str(mixed)))


def test_a_key_may_be_in_a_file_of_its_own(authority: Authority, keystore: Path) -> None:
    certificate = str(keystore.with_suffix(".crt"))
    settings = TlsSettings(certificate, key=str(keystore.with_suffix(".key")))
    assert settings.files == [settings.keystore, settings.key]
    server_context(settings)
    other = str(authority.sign("another", "/CN=another").with_suffix(".key"))
    with pytest.raises(Unusable, match=r"another\.key are no certificate and its key: key values mismatch"):
        server_context(TlsSettings(certificate, key=other))
    with pytest.raises(Unusable, match="nowhere cannot be read"):
        server_context(TlsSettings(certificate, key="nowhere"))


def test_an_encrypted_key_needs_the_file_of_its_password(authority: Authority, tmp_path: Path) -> None:
    keystore = str(authority.sign("encrypted", "/CN=server", password="key-pass-phrase"))
    password = tmp_path / "password"
    with pytest.raises(Unusable, match="is encrypted, and no file has its password"):
        server_context(TlsSettings(keystore))
    with pytest.raises(Unusable, match="password cannot be read: No such file"):
        server_context(TlsSettings(keystore, str(password)))
    password.write_text("wrong\n", encoding="utf-8")
    with pytest.raises(Unusable, match="has no usable key and certificate"):
        server_context(TlsSettings(keystore, str(password)))
    password.write_text("key-pass-phrase\n", encoding="utf-8")
    server_context(TlsSettings(keystore, str(password)))
