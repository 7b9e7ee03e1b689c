"""The settings of the authorizer, under Kafka's names, and what of them is refused."""

import re
from hashlib import blake2b
from typing import Final

from libs.java_properties import trimmed

STANDARD_AUTHORIZER: Final = "StandardAuthorizer"
KAFKAS_CLASS: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""As `authorizer.class.name` has it in Kafka."""
NO_AUTHORIZER: Final = "none"
"""The digest of a gateway that serves everybody."""
_JOINED_BY_COMMA: Final = re.compile(r",\s*User:")
"""Names may hold commas, as those of certificates do. What follows one is no second principal."""


def super_users(text: str) -> frozenset[str]:
    """The principals of Kafka's `super.users`: `User:admin;User:pipeline`. Raises ValueError for one without a type or a name."""
    principals = [principal for principal in map(trimmed, text.split(";")) if principal]
    for principal in principals:
        kind, separator, name = principal.partition(":")
        if not (kind and separator and name) or _JOINED_BY_COMMA.search(name):
            raise ValueError(f"{principal!r} is no principal. One is written as User:NAME, and several are separated by ';'")
    return frozenset(principals)


def settings_digest(authorizer: str, users: str, *, allow_if_no_acl: bool) -> str:
    """A text that two gateways share exactly if they decide alike by the same ACLs. Raises ValueError."""
    if not authorizer:
        return NO_AUTHORIZER
    text = repr((sorted(super_users(users)), allow_if_no_acl))
    return blake2b(text.encode(), digest_size=8).hexdigest()


def authorizer_problem(authorizer: str, users: str, *, allow_if_no_acl: bool) -> str | None:
    """Why the settings are refused. None: they are not."""
    try:
        super_users(users)
    except ValueError as error:
        return f"PENSTOCK_SUPER_USERS: {error}"
    if authorizer in (STANDARD_AUTHORIZER, KAFKAS_CLASS):
        return None
    if authorizer:
        return f"PENSTOCK_AUTHORIZER is {authorizer!r}. Only {STANDARD_AUTHORIZER} is served; empty, everybody may do everything"
    if users or allow_if_no_acl:
        setting = "PENSTOCK_SUPER_USERS" if users else "PENSTOCK_ALLOW_EVERYONE_IF_NO_ACL_FOUND"
        return f"{setting} needs PENSTOCK_AUTHORIZER={STANDARD_AUTHORIZER}"
    return None
