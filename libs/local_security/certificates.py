"""Authorities of one cluster, and what they sign: for its gateways, its etcd and etcd's users. Pure: keys and names go in, PEM
comes out."""

import ipaddress
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_FOR: Final = timedelta(days=3650)
GATEWAY_FOR: Final = timedelta(days=397)
"""Some clients trust no certificate for more than 398 days."""
RENEWED_WITHIN: Final = 3
"""The part of a certificate's life, at its end, in which it is renewed: a third."""
CLOCKS_DIFFER_BY: Final = timedelta(hours=1)


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def key_to_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    pem: bytes = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return pem


def key_of_pem(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """Raises ValueError."""
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except TypeError:
        raise ValueError("the key is encrypted") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key is of another kind")
    return key


def to_pem(certificate: x509.Certificate) -> bytes:
    pem: bytes = certificate.public_bytes(serialization.Encoding.PEM)
    return pem


def authority_certificate(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    """A certificate of the authority. A later one for the same key vouches for all that the key has signed."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Penstock cluster {_fingerprint(key)}")])
    usage = _usage(key_cert_sign=True, crl_sign=True)
    builder = _builder(key, name, now, now + AUTHORITY_FOR).issuer_name(name)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return builder.add_extension(usage, critical=True).sign(key, hashes.SHA256())


def gateway_certificate(
    key: ec.EllipticCurvePrivateKey,
    hosts: Collection[str],
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    now: datetime,
) -> x509.Certificate:
    """A certificate for the names and addresses by which clients reach gateways. It ends no later than its authority's."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Penstock gateway")])
    return _signed(key, subject, hosts, [ExtendedKeyUsageOID.SERVER_AUTH], authority, authority_key, now)


def etcd_certificate(
    key: ec.EllipticCurvePrivateKey,
    hosts: Collection[str],
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    now: datetime,
) -> x509.Certificate:
    """A certificate for etcd, which shows it to clients, and to other members as a client too. It has no common name: etcd would
    take that for a user."""
    subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Penstock etcd")])
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    return _signed(key, subject, hosts, usages, authority, authority_key, now)


def user_certificate(
    key: ec.EllipticCurvePrivateKey,
    user: str,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    now: datetime,
) -> x509.Certificate:
    """A certificate by which etcd knows a user."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, user)])
    return _signed(key, subject, [], [ExtendedKeyUsageOID.CLIENT_AUTH], authority, authority_key, now)


def _signed(
    key: ec.EllipticCurvePrivateKey,
    subject: x509.Name,
    hosts: Collection[str],
    usages: Collection[x509.ObjectIdentifier],
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    now: datetime,
) -> x509.Certificate:
    """It ends no later than its authority's. Without hosts it is no server's."""
    ends = min(now + GATEWAY_FOR, authority.not_valid_after_utc)
    builder = _builder(key, subject, now, ends).issuer_name(authority.subject)
    for extension, critical in (
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage(digital_signature=True), True),
        (x509.ExtendedKeyUsage(usages), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), False),
    ):
        builder = builder.add_extension(extension, critical)
    if hosts:
        names = x509.SubjectAlternativeName([general_name(host) for host in sorted(set(hosts))])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(authority_key, hashes.SHA256())


def is_due(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether less than a third of its life is left, or it has not begun, as after a clock was set back."""
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return bool(now < begins or ends - now < (ends - begins) / RENEWED_WITHIN)


def has_key(pem: bytes, certificate: x509.Certificate) -> bool:
    """Whether the file has the key of its certificate."""
    try:
        return bool(key_of_pem(pem).public_key() == certificate.public_key())
    except ValueError:
        return False


def serves(certificate: x509.Certificate, hosts: Collection[str], authority: x509.Certificate) -> bool:
    """Whether clients that trust the authority and connect to any of the hosts accept it, as long as it is valid."""
    try:
        certificate.verify_directly_issued_by(authority)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except Exception:  # also InvalidSignature and ExtensionNotFound: whatever is wrong with it, a new one is made
        return False
    return {general_name(host) for host in hosts} <= set(names)


def names(certificate: x509.Certificate, user: str, authority: x509.Certificate) -> bool:
    """Whether who trusts the authority takes the certificate's owner for this user."""
    try:
        certificate.verify_directly_issued_by(authority)
    except Exception:  # also InvalidSignature: whatever is wrong with it, a new one is made
        return False
    return [each.value for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == [user]


def _builder(key: ec.EllipticCurvePrivateKey, name: x509.Name, now: datetime, ends: datetime) -> x509.CertificateBuilder:
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_DIFFER_BY)
        .not_valid_after(ends)
        .add_extension(identifier, critical=False)
    )


def _usage(**used: bool) -> x509.KeyUsage:
    unused = dict.fromkeys(
        (
            "digital_signature",
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "key_cert_sign",
            "crl_sign",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    return x509.KeyUsage(**{**unused, **used})


def _fingerprint(key: ec.EllipticCurvePrivateKey) -> str:
    """It tells the authorities of several clusters apart, also in one truststore."""
    digest: bytes = x509.SubjectKeyIdentifier.from_public_key(key.public_key()).digest
    return digest.hex()[:12]


def general_name(host: str) -> x509.GeneralName:
    """A name beyond ASCII as clients look for it, with `xn--`. Raises ValueError."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host if host.isascii() else host.encode("idna").decode("ascii"))
