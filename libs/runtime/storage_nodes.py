"""Connections to storage nodes, for processes that append to logs and read them by RPC: one for each node of the image."""

from collections.abc import Callable

from libs.cluster.records import STORAGE
from libs.rpc.client.rpc_client import Hello
from libs.rpc.transport.transport import Transport
from libs.runtime.member_clients import MemberClients


class StorageNodes(MemberClients):
    def __init__(self, hello: Callable[[], Hello], host_id: str, transport: Transport) -> None:
        super().__init__(STORAGE, hello, host_id, transport)
