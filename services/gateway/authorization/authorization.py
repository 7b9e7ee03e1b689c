"""The authorizer of this gateway: it checks each request by the table, and logs what is denied."""

import logging
from collections.abc import Callable
from typing import Any, Final

from libs.cluster.acl_index import AclIndex
from libs.cluster.image import ClusterImage
from libs.cluster.standard_authorizer import StandardAuthorizer
from libs.telemetry.limited_lines import LimitedLines, Timers
from libs.wire.api_keys import ApiKey
from services.gateway.authorization.access import EVERYBODY, Access, Asker, Authorizer, Outcome
from services.gateway.authorization.table import ROWS
from services.gateway.exchange.exchange import Exchange, Shortcut

log = logging.getLogger("authorizer")

DENIED_LOG_S: Final = 10.0
"""How often a line tells of one client's denials of one kind."""

_REPEATS: Final = frozenset(int(key) for key, row in ROWS.items() if row.repeats)


class Authorization:
    """That of one process. Call `follow` with each image. Before the first, only super users may do anything."""

    def __init__(
        self, super_users: frozenset[str], *, allow_if_no_acl: bool, host_of: Callable[[str], str], timers: Timers
    ) -> None:
        """`host_of` makes the address that ACLs name of a connection's `client_host`."""
        self._super_users = super_users
        self._allow_if_no_acl = allow_if_no_acl
        self._host_of = host_of
        self._authorizer: Authorizer = StandardAuthorizer(AclIndex(), super_users)
        self._acls: AclIndex | None = None
        self._image = ClusterImage()
        self._lines = LimitedLines(log, DENIED_LOG_S, timers)
        self.generation = 0
        """It rises with each change of an ACL. Shortcuts of an older one are void."""

    def follow(self, image: ClusterImage) -> None:
        self._image = image
        if image.acls is not self._acls:
            self._acls = image.acls
            self._authorizer = StandardAuthorizer(image.acls, self._super_users, self._allow_if_no_acl)
            self.generation += 1

    def shortcut_of(self, exchange: Exchange) -> Shortcut | None:
        """The shortcut of a request's API, if the request may begin by it without another decision: the request that taught it
        was allowed, and no ACL has changed since."""
        connection = exchange.connection
        if connection.acl_generation != self.generation:
            connection.acl_generation = self.generation
            connection.shortcuts.by_api.clear()
            return None
        return connection.shortcuts.by_api.get(exchange.api_key) if exchange.api_key in _REPEATS else None

    def asker(self, principal: str) -> Asker:
        """The client for coordinators."""
        return EVERYBODY if principal in self._super_users else Asker(principal, self._allow_if_no_acl)

    def check(self, exchange: Exchange, request: Any) -> Outcome:
        """Whether the client may do what its request asks for."""
        connection = exchange.connection
        access = Access(self._authorizer, self._image, connection.principal, self._host_of(connection.client_host))
        outcome = ROWS[ApiKey(exchange.api_key)].check(access, request, exchange.api_version)
        if access.denials:
            self._log(exchange, access)
        return outcome

    def _log(self, exchange: Exchange, access: Access) -> None:
        first, api = access.denials[0], ApiKey(exchange.api_key).name
        self._lines.write(
            (access.principal, access.host, api, first.operation, first.resource_type),
            logging.INFO,
            "request denied",
            principal=access.principal,
            host=access.host,
            api=api,
            operation=first.operation.name,
            resource_type=first.resource_type.name,
            resource=first.name,
            denials=len(access.denials),
        )
