"""Certificates for tests, made by openssl: an authority, and what it signs."""

import ssl
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from libs.rpc.transport.peer_tls import PeerTlsFiles

NAMES = "DNS:localhost,IP:127.0.0.1"


@dataclass(frozen=True)
class Authority:
    """It signs in a directory of its own."""

    directory: Path

    @property
    def certificate(self) -> Path:
        """What trusts it: a truststore."""
        return self.directory / "ca.pem"

    def sign(
        self,
        name: str,
        subject: str,
        *,
        names: str = NAMES,
        usages: str = "",
        days: int = 2,
        password: str = "",
        encryption: Sequence[str] = (),
    ) -> Path:
        """A PEM file of a key, and of a certificate for the subject, such as `/O=Penstock/CN=gateway`: a keystore.

        `password` encrypts the key, in the way of `encryption`: options of openssl's pkcs8.
        """
        key, request, signed = (self.directory / f"{name}.{kind}" for kind in ("key", "csr", "crt"))
        extensions = self.directory / f"{name}.ext"
        lines = [f"subjectAltName={names}" if names else "basicConstraints=CA:FALSE"]
        lines += [f"extendedKeyUsage={usages}"] if usages else []
        extensions.write_text("\n".join(lines) + "\n", encoding="utf-8")
        _openssl(*_NEW_KEY, "-keyout", key, "-out", request, "-subj", subject, "-utf8", "-multivalue-rdn")
        authority = ("-CA", self.certificate, "-CAkey", self.directory / "ca.key", "-CAcreateserial")
        _openssl("x509", "-req", "-in", request, *authority, "-out", signed, "-days", days, "-extfile", extensions)
        if password:
            _openssl("pkcs8", "-topk8", "-in", key, "-out", f"{key}.new", "-passout", f"pass:{password}", *encryption)
            key = Path(f"{key}.new")
        keystore = self.directory / f"{name}.pem"
        keystore.write_bytes(key.read_bytes() + signed.read_bytes())
        return keystore


_NEW_KEY = ("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def make_authority(directory: Path, subject: str = "/CN=an authority for tests") -> Authority:
    directory.mkdir(parents=True, exist_ok=True)
    files = ("-keyout", directory / "ca.key", "-out", directory / "ca.pem")
    _openssl(*_NEW_KEY, "-x509", *files, "-days", 2, "-subj", subject)
    return Authority(directory)


def _openssl(*arguments: object) -> None:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr


def client_context(authority: Authority, keystore: Path | None = None) -> ssl.SSLContext:
    """Of a client that trusts the authority, and shows the certificate of `keystore` if it is asked."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if keystore is not None:
        context.load_cert_chain(keystore)
    return context


def certified(authority: Authority, directory: Path, *uris: str, days: int = 2) -> PeerTlsFiles:
    """The files of a process whose certificate names these URIs."""
    directory.mkdir(exist_ok=True)
    name = f"peer{len(list(authority.directory.glob('*.crt')))}"
    keystore = authority.sign(name, "/CN=peer", names=",".join(f"URI:{uri}" for uri in uris), days=days)
    for target in ("certificate.pem", "key.pem"):
        (directory / target).write_bytes(keystore.read_bytes())
    (directory / "ca.pem").write_bytes(authority.certificate.read_bytes())
    return PeerTlsFiles(*(str(directory / each) for each in ("certificate.pem", "key.pem", "ca.pem")))
