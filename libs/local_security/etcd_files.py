"""The files of a protected cluster's etcd: an authority of its own, etcd's certificate, and one for each of its users."""

from collections.abc import Collection
from datetime import datetime
from functools import partial
from pathlib import Path

from libs.local_security import certificates
from libs.local_security.folder import HERE, authority_in, authority_key_in, certificate_in, issue, usable_in


def secure_etcd(folder: Path, users: Collection[str], now: datetime, *, runs: bool = False) -> bool:
    """Makes what lacks, and renews what ends soon. A PEM file has a key and its certificate. etcd and processes that run read new
    ones by themselves. Raises Unusable and OSError.

    `runs`: etcd does, and reads no other authority until it is started again. False: the authority's key is lost, or is that of
    another one, so all stays.
    """
    if not users:
        return True
    key_file = folder / "etcd-ca.key"
    if runs and not key_file.exists():
        return False
    authority_key = authority_key_in(key_file)
    former = certificate_in(folder / "etcd-ca.pem")
    if runs and former is not None and former.public_key() != authority_key.public_key():
        return False
    authority, _ = authority_in(folder / "etcd-ca.pem", authority_key, now)
    own = folder / "etcd.pem"
    former = usable_in(own, now)
    if former is None or not certificates.serves(former, HERE, authority):
        issue(own, lambda key: certificates.etcd_certificate(key, HERE, authority, authority_key, now))
    for user in users:
        file = folder / f"etcd-{user}.pem"
        former = usable_in(file, now)
        if former is None or not certificates.names(former, user, authority):
            signed = partial(certificates.user_certificate, user=user, authority=authority, authority_key=authority_key, now=now)
            issue(file, signed)
    return True
