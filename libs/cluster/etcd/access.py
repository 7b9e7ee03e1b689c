"""What each role of Penstock may do in etcd: the one table of the set-up command, the documentation and the tests.

A process is etcd's user of the name that `user_of` gives, which its certificate has as common name. The user has one role of
etcd, of the same name.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from libs.cluster import keys
from libs.lean_dataclass import dataclass
from libs.roles import CONTROLLER, GATEWAY, GROUP_COORDINATOR, QUOTA_MANAGER, STORAGE, TRANSACTION_COORDINATOR

NODE: Final = "node"
"""A process that is a storage node and a gateway (`services/node/`)."""
ROOT: Final = "root"
"""etcd's own name of the user who may do everything: it makes the others."""


@dataclass(frozen=True, slots=True)
class Access:
    """Prefixes of keys. etcd refuses a range, and a watch, that covers a key which its user may not read, so each prefix is one
    that a process asks for as a whole, or holds it."""

    reads: tuple[str, ...]
    """What it may read and not write."""
    writes: tuple[str, ...]
    """What it may read and write."""


def _member(role: str, *more: str, reads: tuple[str, ...] = ()) -> Access:
    """That of a process which registers itself, and follows the image."""
    return Access((keys.PREFIX, *reads), (f"{keys.MEMBERS}{role}/", *more))


ACCESS: Final[Mapping[str, Access]] = {
    CONTROLLER: Access((), (keys.PREFIX, keys.SCRAM)),
    STORAGE: _member(STORAGE, keys.VOLUME_STAMPS),
    GATEWAY: _member(GATEWAY, reads=(keys.SCRAM,)),
    NODE: Access((keys.PREFIX, keys.SCRAM), (f"{keys.MEMBERS}{STORAGE}/", f"{keys.MEMBERS}{GATEWAY}/", keys.VOLUME_STAMPS)),
    GROUP_COORDINATOR: _member(GROUP_COORDINATOR),
    TRANSACTION_COORDINATOR: _member(TRANSACTION_COORDINATOR),
    QUOTA_MANAGER: _member(QUOTA_MANAGER, keys.QUOTA_MANAGER),
}
"""A lease needs no permission of its own, but only who may write all its keys may attach further ones, or revoke it. Backups,
restores, rebuilds and a migration work as a controller."""


USERS: Final = "penstock-"
"""What the names of all users and roles begin with that are the cluster's, but for root."""


def user_of(role: str) -> str:
    return f"{USERS}{role}"


def access_digest() -> str:
    """A text that two processes share exactly if they have the same table: then neither needs what the other does not."""
    table = sorted((role, sorted(access.reads), sorted(access.writes)) for role, access in ACCESS.items())
    return blake2b(repr(table).encode(), digest_size=8).hexdigest()
