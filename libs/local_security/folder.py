"""The folder of a protected cluster's secrets, of mode 0600 each. What is there stays; what lacks, or is due, is made anew."""

import contextlib
import os
import re
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from libs.local_security import certificates

USER: Final = "admin"
MECHANISM: Final = "SCRAM-SHA-512"
_FIRST_USER: Final = re.compile(rf'^{MECHANISM}=\[name={USER},password=(?P<password>[^,"\]]+)\]\s*$', re.MULTILINE)
_NAMES: Final = (
    "ca.key",
    "ca.pem",
    "gateway.pem",
    "first-users",
    "admin-token",
    "admin-password",
    "client.properties",
    "kcat.conf",
)
HERE: Final = ("localhost", "127.0.0.1", "::1")
"""What this machine is called by its own programs."""


class Unusable(Exception):
    """A file of the folder that cannot be used. The message is the sentence for the operator."""


@dataclass(frozen=True)
class Secured:
    """The files of one cluster."""

    keystore: Path
    """The key and the certificates of the gateways."""
    authority: Path
    """What clients trust."""
    first_users: Path
    java: Path
    """Settings of Java clients and of Kafka's tools."""
    librdkafka: Path
    """The same for librdkafka, such as kcat."""
    renewed: bool
    """Whether a certificate that was there has been replaced."""
    is_another_authority: bool
    """Whether clients of before trust an authority whose key is lost, and so do not trust this one."""
    knows_password: bool
    """False: the password of the first user is lost, and so there are no settings of clients."""


def secure(folder: Path, hosts: Collection[str], bootstrap_servers: str, now: datetime, *, is_new: bool) -> Secured:
    """`is_new`: the cluster has not begun, so that its first user may have a new password. Raises Unusable and OSError."""
    for host in hosts:
        try:
            certificates.general_name(host)
        except ValueError:
            raise Unusable(f"{host!r} cannot stand in a certificate; give an address, or a name as DNS has it") from None
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = {name: folder / name for name in _NAMES}
    had_key, former = files["ca.key"].exists(), certificate_in(files["ca.pem"])
    authority_key = authority_key_in(files["ca.key"])
    authority, renewed = authority_in(files["ca.pem"], authority_key, now)
    is_another = not had_key if former is None else former.public_key() != authority_key.public_key()
    renewed |= _gateway(files["gateway.pem"], {*hosts, *HERE}, authority, authority_key, now)
    if not files["admin-token"].exists():
        write_secret(files["admin-token"], f"{secrets.token_hex(32)}\n".encode())
    password = _password(files["first-users"], is_new=is_new)
    if password is not None:
        write_secret(files["client.properties"], _properties(_java(files["ca.pem"], password), bootstrap_servers))
        write_secret(files["admin-password"], password.encode())
        write_secret(files["kcat.conf"], _properties(_librdkafka(files["ca.pem"], password), bootstrap_servers))
    return Secured(
        files["gateway.pem"],
        files["ca.pem"],
        files["first-users"],
        files["client.properties"],
        files["kcat.conf"],
        renewed,
        is_another and not is_new,
        password is not None,
    )


def authority_key_in(file: Path) -> EllipticCurvePrivateKey:
    try:
        return certificates.key_of_pem(file.read_bytes())
    except FileNotFoundError:
        key = certificates.new_key()
        write_secret(file, certificates.key_to_pem(key))
        return key
    except ValueError as error:
        raise Unusable(
            f"{file} cannot be read ({error}); put a copy back, or remove it: clients then need the new ca.pem"
        ) from error


def authority_in(file: Path, key: EllipticCurvePrivateKey, now: datetime) -> tuple[x509.Certificate, bool]:
    """The certificate, and whether it replaces another one."""
    former = certificate_in(file)
    if former is not None and former.public_key() == key.public_key() and not certificates.is_due(former, now):
        return former, False
    made = certificates.authority_certificate(key, now)
    write_secret(file, certificates.to_pem(made))
    return made, former is not None


def _gateway(
    file: Path, hosts: Collection[str], authority: x509.Certificate, authority_key: EllipticCurvePrivateKey, now: datetime
) -> bool:
    """Returns whether a certificate was replaced."""
    former = usable_in(file, now)
    if former is not None and certificates.serves(former, hosts, authority):
        return False
    replaces = certificate_in(file) is not None
    issue(file, lambda key: certificates.gateway_certificate(key, hosts, authority, authority_key, now))
    return replaces


def issue(file: Path, certificate_for: Callable[[EllipticCurvePrivateKey], x509.Certificate]) -> None:
    """Writes a new key and its certificate into one file."""
    key = certificates.new_key()
    write_secret(file, certificates.key_to_pem(key) + certificates.to_pem(certificate_for(key)))


def usable_in(file: Path, now: datetime) -> x509.Certificate | None:
    """The certificate of a file that has its key, unless it ends soon."""
    found = certificate_in(file)
    if found is None or certificates.is_due(found, now) or not certificates.has_key(file.read_bytes(), found):
        return None
    return found


def certificate_in(file: Path) -> x509.Certificate | None:
    """The first of a file; None if there is none that can be read."""
    try:
        return x509.load_pem_x509_certificates(file.read_bytes())[0]
    except (FileNotFoundError, ValueError):
        return None


def _password(file: Path, *, is_new: bool) -> str | None:
    """None: it is lost."""
    with contextlib.suppress(FileNotFoundError):
        if (found := _FIRST_USER.search(file.read_bytes().decode("utf-8", "replace"))) is None:
            raise Unusable(f"{file} has no line of the form {MECHANISM}=[name={USER},password=…]; put a copy back, or remove it")
        return found["password"]
    if not is_new:
        return None
    password = secrets.token_urlsafe(24)
    write_secret(file, f"{MECHANISM}=[name={USER},password={password}]\n".encode())
    return password


def _java(authority: Path, password: str) -> Mapping[str, str]:
    login = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{USER}" password="{password}";'
    return {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority),
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": login,
    }


def _librdkafka(authority: Path, password: str) -> Mapping[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority),
        "sasl.mechanism": MECHANISM,
        "sasl.username": USER,
        "sasl.password": password,
    }


def _properties(settings: Mapping[str, str], bootstrap_servers: str) -> bytes:
    lines = [f"{name}={value}\n" for name, value in {"bootstrap.servers": bootstrap_servers, **settings}.items()]
    return "".join(lines).encode()


def write_secret(file: Path, content: bytes) -> None:
    """Replaces the file as a whole. Nobody else may read it, at no time."""
    beside = file.with_name(f"{file.name}.tmp")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb", closefd=False) as written:
            written.write(content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    beside.replace(file)
    directory = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
