"""The address at which this process reaches a member."""

import os
from collections.abc import Callable
from typing import Protocol


class Addressed(Protocol):
    """The addresses of a member, from its record or from an address book."""

    @property
    def host_id(self) -> str: ...

    @property
    def unix_address(self) -> str: ...

    @property
    def tcp_address(self) -> str: ...


def address_of(member: Addressed, host_id: str, exists: Callable[[str], bool] = os.path.exists) -> str:
    """The address by which this process reaches a member, "" if there is none.

    The member's Unix socket where it exists here, since only Unix sockets can pass descriptors; otherwise TCP. Two containers may
    share a kernel, and so a `host_id`, without sharing the socket's file system.
    """
    unix = member.unix_address
    if unix and member.host_id == host_id and exists(unix.removeprefix("unix:")):
        return unix
    return member.tcp_address
