"""The command line `python -m services.controller.etcd_users set-up|off`: etcd's users and roles (docs/security.md)."""

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Final

import grpc

from libs.cluster import keys
from libs.cluster.codec import RecordError, decode
from libs.cluster.etcd.access import ACCESS, ROOT, access_digest, user_of
from libs.cluster.etcd.etcd_auth import EtcdAuth
from libs.cluster.etcd.etcd_connection import EtcdConnection, EtcdError
from libs.cluster.etcd.etcd_store import EtcdStore
from libs.cluster.etcd.etcd_tls import EtcdTls
from libs.cluster.records import Member
from libs.cluster.store import KeyValue, StoreUnavailable
from libs.pem_files import Unusable
from libs.runtime.ending import run_program
from libs.runtime.etcd_store import etcd_tls_of
from libs.runtime.identity import own_version

ANSWERS_WITHIN_S: Final = 60.0
"""An etcd that starts with the command may take a while."""
REVOKE: Final = "also take away permissions that this version does not need; for after an upgrade, when all processes run it"
ETCD: Final = "host:port of each member, with commas between them"
NOT_ROOT: Final = f"etcd demands a user already: give the certificate of the user {ROOT} in PENSTOCK_ETCD_CERT_FILE and _KEY_FILE"
OTHERS_RUN: Final = (
    "no permission is taken away, since processes are registered that may need others than this version, {version}: {others}. "
    "It is taken away by the same step once they are upgraded"
)
_DENIED: Final = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED)


def set_up(etcd: str, tls: EtcdTls, *, revoke: bool = False) -> None:
    """`revoke`: also takes away what no process of this version needs, unless one is registered that has another table of
    permissions. Raises EtcdError."""

    async def work(auth: EtcdAuth) -> None:
        await auth.set_up(ACCESS, print)
        if revoke and await _all_need_the_same(etcd, tls):
            await auth.revoke_unneeded(ACCESS, print)

    _with_etcd(etcd, tls, work)
    print(f"etcd serves users only: {', '.join([*map(user_of, ACCESS), ROOT])}")


def turn_off(etcd: str, tls: EtcdTls) -> None:
    _with_etcd(etcd, tls, lambda auth: auth.turn_off())
    print("etcd serves whoever reaches it, with a certificate if it demands one")


async def _all_need_the_same(etcd: str, tls: EtcdTls) -> bool:
    """Whether all processes have this table of permissions. Says who does not, since what they need may be lacking here."""
    store = EtcdStore(etcd.split(","), tls=tls, timeout_s=ANSWERS_WITHIN_S)
    try:
        members = (await store.range(keys.MEMBERS)).items
    except StoreUnavailable as error:
        raise EtcdError(grpc.StatusCode.UNAVAILABLE, str(error)) from None
    finally:
        await store.close()
    if others := sorted(filter(None, map(_other, members))):
        print(OTHERS_RUN.format(others=", ".join(others), version=own_version()))
    return not others


def _other(stored: KeyValue) -> str:
    """What is to be said of a process that has another table. Empty: it has this one."""
    try:
        member = decode(Member, stored.value)
    except RecordError:
        return f"{stored.key.removeprefix(keys.MEMBERS)} (unknown)"
    if member.etcd_access == access_digest():
        return ""
    build = ", another build" if member.version == own_version() else ""
    return f"{member.role} {member.node_id} ({member.version}{build})"


def _with_etcd(etcd: str, tls: EtcdTls, work: Callable[[EtcdAuth], Awaitable[None]]) -> None:
    async def run() -> None:
        connection = EtcdConnection(etcd.split(","), tls, ANSWERS_WITHIN_S)
        try:
            await work(EtcdAuth(connection))
        finally:
            await connection.close()

    asyncio.run(run())


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m services.controller.etcd_users", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, words in (
        ("set-up", "make what lacks of the users and roles, and have etcd demand a user; may be repeated"),
        ("off", "have etcd demand no user any more; users and roles stay"),
    ):
        command = commands.add_parser(name, help=words)
        command.add_argument("--etcd", required=True, help=ETCD)
        if name == "set-up":
            command.add_argument("--revoke-unneeded", action="store_true", help=REVOKE)
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    given = parse(arguments)
    try:
        if (tls := etcd_tls_of(os.environ)) is None:
            raise Unusable("PENSTOCK_ETCD_CA_FILE is empty; users of etcd are known by their certificates, so it takes TLS")
        if given.command == "set-up":
            set_up(given.etcd, tls, revoke=given.revoke_unneeded)
        else:
            turn_off(given.etcd, tls)
    except EtcdError as error:
        print(f"{given.command}: {NOT_ROOT if error.code in _DENIED else error}", file=sys.stderr)
        return 1
    except Unusable as error:
        print(f"{given.command}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    run_program(lambda: main(sys.argv[1:]))
