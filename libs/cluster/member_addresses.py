"""At which of its addresses a member can be reached from here."""

import os
from collections.abc import Callable
from typing import Protocol


class Addressed(Protocol):
    """A member, or what was kept of one."""

    @property
    def host_id(self) -> str: ...

    @property
    def unix_address(self) -> str: ...

    @property
    def tcp_address(self) -> str: ...


def address_of(member: Addressed, host_id: str, exists: Callable[[str], bool] = os.path.exists) -> str:
    """By its Unix socket where that is, since only there descriptors can be passed; otherwise by TCP. "": not from here.

    The same kernel is not the same file system: another container has the same `host_id`, but perhaps not the socket.
    """
    unix = member.unix_address
    if unix and member.host_id == host_id and exists(unix.removeprefix("unix:")):
        return unix
    return member.tcp_address
