"""Settings of a node. Its storage node and its gateway read theirs, under the same names as in processes of their own."""

import dataclasses
import os
import sys

from libs.lean_dataclass import dataclass
from libs.roles import GATEWAY
from libs.runtime.config import load_or_exit
from libs.runtime.process import read_config
from libs.runtime.tracing.trace_settings import TraceSettings
from services.gateway.config import GatewayConfig
from services.storage.config import StorageConfig

NODE = "node"
DATA_OF_GATEWAY = "gateway"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """What only one of the two services can have, for the gateway. The storage node has the address without `gateway`."""

    gateway_rpc_unix: str = ""
    """The path of the gateway's socket for callers on this host. Empty: `rpc_unix` with `.gateway` at its end."""
    gateway_rpc_tcp: str = ""
    """`host:port` for callers of the gateway from anywhere. Empty: none."""


def read_node_config() -> tuple[StorageConfig, GatewayConfig, TraceSettings]:
    """Ends the process if a setting is missing or wrong. Warns of variables that no service knows."""
    storage, traces = read_config(StorageConfig, NODE, beside=(GatewayConfig, NodeConfig))
    own = load_or_exit(NodeConfig, NODE, beside=(StorageConfig, GatewayConfig))
    gateway = gateway_of(storage, load_or_exit(GatewayConfig, NODE, beside=(StorageConfig, NodeConfig)), own)
    if problem := gateway.problem():
        sys.exit(f"{NODE}: {problem}")
    return storage, gateway, traces


def gateway_of(storage: StorageConfig, gateway: GatewayConfig, own: NodeConfig) -> GatewayConfig:
    """The gateway's settings, with the directory and the addresses that it has beside its storage node."""
    beside = f"{storage.rpc_unix}.{GATEWAY}" if storage.rpc_unix else ""
    return dataclasses.replace(
        gateway,
        data_dir=os.path.join(storage.data_dir, DATA_OF_GATEWAY),
        rpc_unix=own.gateway_rpc_unix or beside,
        rpc_tcp=own.gateway_rpc_tcp,
    )
