"""etcd's users and roles, made as a table says. Users have no password: their certificates say who they are."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import grpc

from libs.cluster.etcd import etcd_stubs
from libs.cluster.etcd.access import ROOT, USERS, Access, user_of
from libs.cluster.etcd.etcd_connection import EtcdConnection, EtcdError
from libs.cluster.etcd.etcd_store import prefix_end

Permissions = dict[tuple[bytes, bytes], int]
"""The kind of a permission, by the first key and the end of its range."""

READ, READ_WRITE = 0, 2
"""authpb.Permission.Type; 1 is WRITE."""
_THERE: Final = ("etcdserver: user name already exists", "etcdserver: role name already exists")


class EtcdAuth:
    """Changes users and roles, one call after the other, each of which may be repeated."""

    def __init__(self, connection: EtcdConnection) -> None:
        self._connection = connection

    async def set_up(self, table: Mapping[str, Access], tell: Callable[[str], None]) -> None:
        """Makes the users and roles of a table, of Penstock's roles, and has etcd demand a user from then on. It takes nothing
        away: processes of a former version, which may need more, run during an upgrade. Raises EtcdError."""
        roles = (await self._ask("RoleList", etcd_stubs.AuthRoleListRequest(), etcd_stubs.AuthRoleListResponse)).roles
        users = (await self._ask("UserList", etcd_stubs.AuthUserListRequest(), etcd_stubs.AuthUserListResponse)).users
        for role, access in table.items():
            name = user_of(role)
            if name not in roles:
                add = etcd_stubs.AuthRoleAddRequest(name=name)
                await self._ask("RoleAdd", add, etcd_stubs.AuthRoleAddResponse, unless=_THERE)
            await self._grant(name, permissions_of(access), tell)
            await self._set_user(name, name in users, tell)
        await self._set_user(ROOT, ROOT in users, tell)
        await self._ask("AuthEnable", etcd_stubs.AuthEnableRequest(), etcd_stubs.AuthEnableResponse)

    async def revoke_unneeded(self, table: Mapping[str, Access], tell: Callable[[str], None]) -> None:
        """Takes away what roles may do beyond a table, also those that it does not have. Call it when no process of another
        version runs. Raises EtcdError; it may be repeated then."""
        listed = (await self._ask("RoleList", etcd_stubs.AuthRoleListRequest(), etcd_stubs.AuthRoleListResponse)).roles
        needed = {user_of(role): permissions_of(access) for role, access in table.items()}
        for name in sorted(needed.keys() | {each for each in listed if each.startswith(USERS)}):
            wanted = needed.get(name, {})
            for (key, end), kind in (await self._permissions(name)).items():
                if (key, end) not in wanted:
                    revoke = etcd_stubs.AuthRoleRevokePermissionRequest(role=name, key=key, range_end=end)
                    await self._ask("RoleRevokePermission", revoke, etcd_stubs.AuthRoleRevokePermissionResponse)
                    tell(f"{name} loses what it might do below {_shown(key)}")
                elif kind != wanted[key, end]:
                    await self._set_permission(name, key, end, wanted[key, end], tell)

    async def turn_off(self) -> None:
        """Has etcd demand no user any more. Users and roles stay. Raises EtcdError."""
        await self._ask("AuthDisable", etcd_stubs.AuthDisableRequest(), etcd_stubs.AuthDisableResponse)

    async def _permissions(self, role: str) -> Permissions:
        request = etcd_stubs.AuthRoleGetRequest(role=role)
        listed = await self._ask("RoleGet", request, etcd_stubs.AuthRoleGetResponse)
        return {(each.key, each.range_end): each.permType for each in listed.perm}

    async def _grant(self, role: str, wanted: Permissions, tell: Callable[[str], None]) -> None:
        there = await self._permissions(role)
        for (key, end), kind in wanted.items():
            former = there.get((key, end), kind)
            both = kind if former == kind else READ_WRITE
            if there.get((key, end)) != both:
                await self._set_permission(role, key, end, both, tell)

    async def _set_permission(self, role: str, key: bytes, end: bytes, kind: int, tell: Callable[[str], None]) -> None:
        """It takes the place of the former one for these keys, in one step."""
        permission = {"permType": kind, "key": key, "range_end": end}
        grant = etcd_stubs.AuthRoleGrantPermissionRequest(name=role, perm=permission)
        await self._ask("RoleGrantPermission", grant, etcd_stubs.AuthRoleGrantPermissionResponse)
        tell(f"{role} may {'read' if kind == READ else 'read and write'} below {_shown(key)}")

    async def _set_user(self, user: str, is_there: bool, tell: Callable[[str], None]) -> None:
        """The user has the role of the same name."""
        if not is_there:
            add = etcd_stubs.AuthUserAddRequest(name=user, options={"no_password": True})
            await self._ask("UserAdd", add, etcd_stubs.AuthUserAddResponse, unless=_THERE)
            tell(f"etcd has a user {user}")
        found = await self._ask("UserGet", etcd_stubs.AuthUserGetRequest(name=user), etcd_stubs.AuthUserGetResponse)
        if user not in found.roles:
            grant = etcd_stubs.AuthUserGrantRoleRequest(user=user, role=user)
            await self._ask("UserGrantRole", grant, etcd_stubs.AuthUserGrantRoleResponse)

    async def _ask(self, method: str, request: Any, response: Any, *, unless: tuple[str, ...] = ()) -> Any:
        """None: etcd answered with one of the words of `unless`. Raises EtcdError."""

        def call(on: Any, timeout_s: float) -> Any:
            stub = on.channel.unary_unary(f"/etcdserverpb.Auth/{method}", request.SerializeToString, response.FromString)
            return stub(request, timeout=timeout_s)

        try:
            return await self._connection.until_answered(call)
        except EtcdError as error:
            if error.code is grpc.StatusCode.FAILED_PRECONDITION and error.details in unless:
                return None
            raise


def permissions_of(access: Access) -> Permissions:
    reads = {_range_of(prefix): READ for prefix in access.reads}
    return reads | {_range_of(prefix): READ_WRITE for prefix in access.writes}


def _shown(key: bytes) -> str:
    return key.decode(errors="backslashreplace")


def _range_of(prefix: str) -> tuple[bytes, bytes]:
    return prefix.encode(), prefix_end(prefix)
