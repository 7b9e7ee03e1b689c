"""A Kafka cluster's ACLs and users, checked as if a client created them, and both as Kafka takes them back."""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b

from libs.cluster import keys
from libs.cluster.acls import AclBinding
from libs.cluster.codec import encode
from libs.cluster.records import AclRecord
from libs.cluster.scram_credentials import MECHANISMS, ScramCredential
from libs.rpc.contracts.controller import Acl, ScramUpsertion
from services.controller.core.administration import acls, scram_credentials
from services.controller.core.administration.first_users import Users
from services.controller.core.migration.kraft_security import AclAdded, ScramSet
from services.controller.core.model.refusal import Refused
from services.controller.core.topics.topic_names import shown


def adopted_acls(given: Iterable[Acl], notes: list[str]) -> dict[str, bytes]:
    """The keys and values of ACLs. `notes` gets what is to be told of them."""
    adopted: dict[str, bytes] = {}
    for acl in given:
        try:
            adopted[keys.acl(acls.checked(acl))] = encode(AclRecord())
        except Refused as refused:
            notes.append(f"an ACL of {shown(acl.principal)} on {shown(acl.name)} is not carried over: {refused.message}")
    if adopted:
        notes.append(f"{len(adopted)} ACLs are carried over: gateways that have an authorizer obey them")
    return adopted


def adopted_users(given: Mapping[tuple[str, int], ScramCredential], notes: list[str]) -> Users:
    """`given` has credentials by user and Kafka's number of the mechanism."""
    adopted: dict[tuple[str, str], ScramCredential] = {}
    for (user, number), credential in given.items():
        change = ScramUpsertion(user, number, credential.iterations, credential.salt, b"", b"")
        try:
            mechanism, _ = scram_credentials.checked(lambda _mechanism, _user: False, change)
        except Refused as refused:
            notes.append(f"the SCRAM credential of user {shown(user)} is not carried over: {refused.message}")
        else:
            adopted[mechanism, user] = credential
    if adopted:
        notes.append(f"{len(adopted)} SCRAM credentials of users are carried over: gateways with a SASL listener check them")
    return adopted


def returned_acls(bindings: Iterable[AclBinding]) -> Iterator[AclAdded]:
    """ACLs as records, in the order of their resources. The id of each is derived from it, so it is the same every time."""
    for binding in sorted(bindings):
        kind, pattern_type, name, principal, host, operation, permission = binding
        acl = Acl(int(kind), int(pattern_type), name, principal, _as_java_writes(host), int(operation), int(permission))
        yield AclAdded(blake2b(keys.acl(binding).encode(), digest_size=16).digest(), acl)


def returned_users(users: Users) -> Iterator[ScramSet]:
    """Credentials as records (KIP-900), in the order of users. AlterUserScramCredentials would need their salted passwords."""
    numbers = {mechanism: number for number, mechanism in MECHANISMS.items()}
    for (mechanism, user), credential in sorted(users.items(), key=lambda item: (item[0][1], item[0][0])):
        yield ScramSet(user, numbers[mechanism], credential)


def _as_java_writes(host: str) -> str:
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return host
    scope = f"%{address.scope_id}" if address.scope_id else ""
    return ":".join([f"{int(part, 16):x}" for part in address.exploded.partition("%")[0].split(":")]) + scope
