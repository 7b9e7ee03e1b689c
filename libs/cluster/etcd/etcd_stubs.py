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
        serialized = ast.literal_eval(literal[1]).encode("latin1")
        pool.Add(descriptor_pb2.FileDescriptorProto.FromString(serialized))
    return pool


_pool = _build_pool()


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"etcdserverpb.{name}"))


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
