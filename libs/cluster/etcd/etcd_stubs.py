"""etcd's messages and methods, built at import from the descriptors that the `etcd3` package ships.

etcd3 0.12 (2020) is generated code that current protobuf refuses to import. But each of its `_pb2.py` files holds its serialized
file descriptor as one literal. Only that literal is used: no module of etcd3 is imported, and none of its code is executed.
"""

import ast
import importlib.util
import re
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FILES = ("kv", "auth", "rpc")  # in the order of their imports
_LITERAL = re.compile(r"^  serialized_pb=_b\(('.*')\)$", re.MULTILINE)


def _build_pool() -> descriptor_pool.DescriptorPool:
    spec = importlib.util.find_spec("etcd3")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("the etcd3 package, whose descriptors we use, is not installed")
    folder = Path(spec.submodule_search_locations[0]) / "etcdrpc"
    pool = descriptor_pool.DescriptorPool()  # our own: the default one may hold another etcd client's
    for name in _FILES:
        literal = _LITERAL.search((folder / f"{name}_pb2.py").read_text(encoding="ascii"))
        if literal is None:
            raise ImportError(f"etcd3's {name}_pb2.py holds no serialized descriptor where 0.12 has one")
        file = descriptor_pb2.FileDescriptorProto.FromString(ast.literal_eval(literal[1]).encode("latin1"))
        _add_later_fields(file)
        pool.Add(file)
    return pool


def _add_later_fields(file: descriptor_pb2.FileDescriptorProto) -> None:
    """Adds what etcd 3.4 added to the messages of 3.3, which the package has: a user may have no password."""
    field = descriptor_pb2.FieldDescriptorProto
    if file.package == "authpb":
        options = file.message_type.add(name="UserAddOptions")
        options.field.add(name="no_password", number=1, type=field.TYPE_BOOL, label=field.LABEL_OPTIONAL)
    for message in file.message_type:
        if message.name == "AuthUserAddRequest":
            kind = ".authpb.UserAddOptions"
            message.field.add(name="options", number=3, type=field.TYPE_MESSAGE, type_name=kind, label=field.LABEL_OPTIONAL)


_pool = _build_pool()


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"etcdserverpb.{name}"))


AuthDisableRequest = _message("AuthDisableRequest")
AuthDisableResponse = _message("AuthDisableResponse")
AuthEnableRequest = _message("AuthEnableRequest")
AuthEnableResponse = _message("AuthEnableResponse")
AuthRoleAddRequest = _message("AuthRoleAddRequest")
AuthRoleAddResponse = _message("AuthRoleAddResponse")
AuthRoleGetRequest = _message("AuthRoleGetRequest")
AuthRoleGetResponse = _message("AuthRoleGetResponse")
AuthRoleGrantPermissionRequest = _message("AuthRoleGrantPermissionRequest")
AuthRoleGrantPermissionResponse = _message("AuthRoleGrantPermissionResponse")
AuthRoleRevokePermissionRequest = _message("AuthRoleRevokePermissionRequest")
AuthRoleRevokePermissionResponse = _message("AuthRoleRevokePermissionResponse")
AuthUserAddRequest = _message("AuthUserAddRequest")
AuthUserAddResponse = _message("AuthUserAddResponse")
AuthUserGetRequest = _message("AuthUserGetRequest")
AuthUserGetResponse = _message("AuthUserGetResponse")
AuthUserGrantRoleRequest = _message("AuthUserGrantRoleRequest")
AuthUserGrantRoleResponse = _message("AuthUserGrantRoleResponse")
AuthRoleListRequest = _message("AuthRoleListRequest")
AuthRoleListResponse = _message("AuthRoleListResponse")
AuthUserListRequest = _message("AuthUserListRequest")
AuthUserListResponse = _message("AuthUserListResponse")
Compare = _message("Compare")
CompactionRequest = _message("CompactionRequest")
CompactionResponse = _message("CompactionResponse")
LeaseGrantRequest = _message("LeaseGrantRequest")
LeaseGrantResponse = _message("LeaseGrantResponse")
LeaseKeepAliveRequest = _message("LeaseKeepAliveRequest")
LeaseKeepAliveResponse = _message("LeaseKeepAliveResponse")
LeaseRevokeRequest = _message("LeaseRevokeRequest")
LeaseRevokeResponse = _message("LeaseRevokeResponse")
RangeRequest = _message("RangeRequest")
RangeResponse = _message("RangeResponse")
RequestOp = _message("RequestOp")
TxnRequest = _message("TxnRequest")
TxnResponse = _message("TxnResponse")
WatchRequest = _message("WatchRequest")
WatchResponse = _message("WatchResponse")

DELETE_EVENT = 1
"""mvccpb.Event.EventType.DELETE; 0 is PUT."""
