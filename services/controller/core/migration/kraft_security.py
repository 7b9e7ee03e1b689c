"""The records of Kafka's metadata log that are about ACLs, users' SCRAM credentials and delegation tokens."""

from libs.cluster.scram_credentials import ScramCredential
from libs.lean_dataclass import dataclass
from libs.rpc.contracts.controller import Acl
from libs.wire.primitives import Reader, Writer


@dataclass(frozen=True, slots=True)
class AclAdded:
    acl_id: bytes
    acl: Acl


@dataclass(frozen=True, slots=True)
class AclRemoved:
    acl_id: bytes


@dataclass(frozen=True, slots=True)
class ScramSet:
    """A user's credential. `mechanism` is Kafka's number."""

    user: str
    mechanism: int
    credential: ScramCredential


@dataclass(frozen=True, slots=True)
class ScramRemoved:
    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class TokenChanged:
    """A record of delegation tokens, of which nothing is kept."""


def read_acl(reader: Reader, version: int) -> AclAdded:
    acl_id, resource_type, name, pattern_type = reader.uuid(), reader.int8(), reader.string(True), reader.int8()
    principal, host, operation, permission = reader.string(True), reader.string(True), reader.int8(), reader.int8()
    return AclAdded(acl_id, Acl(resource_type, pattern_type, name, principal, host, operation, permission))


def write_acl(writer: Writer, record: AclAdded) -> None:
    acl = record.acl
    writer.uuid(record.acl_id)
    writer.int8(acl.resource_type)
    writer.string(acl.name, True)
    writer.int8(acl.pattern_type)
    writer.string(acl.principal, True)
    writer.string(acl.host, True)
    writer.int8(acl.operation)
    writer.int8(acl.permission)


def read_scram(reader: Reader, version: int) -> ScramSet:
    user, mechanism = reader.string(True), reader.int8()
    salt, stored_key, server_key = [bytes(reader.data(True)) for _ in range(3)]
    return ScramSet(user, mechanism, ScramCredential(salt, stored_key, server_key, reader.int32()))


def write_scram(writer: Writer, record: ScramSet) -> None:
    writer.string(record.user, True)
    writer.int8(record.mechanism)
    for part in (record.credential.salt, record.credential.stored_key, record.credential.server_key):
        writer.data(part, True)
    writer.int32(record.credential.iterations)


def read_scram_removal(reader: Reader, version: int) -> ScramRemoved:
    return ScramRemoved(reader.string(True), reader.int8())
