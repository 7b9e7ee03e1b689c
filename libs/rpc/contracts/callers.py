"""The roles that may call each method: one row for every method of every contract.

A server checks it before its handler sees a call (`libs/rpc/server/permissions.py`), and refuses to serve a method without a
row. docs/security.md shows the table.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from libs.roles import CONTROLLER, GATEWAY, GROUP_COORDINATOR, ROLES, STORAGE, TRANSACTION_COORDINATOR
from libs.rpc.contracts import (
    controller,
    coordinators,
    log_layout,
    log_levels,
    ownership,
    peers,
    quotas,
    replication,
    storage,
    traces,
    transactions,
)


class Callers(NamedTuple):
    """The callers of one method. A hello without a node id or a cluster id opens only the methods that say so."""

    roles: frozenset[str]
    without_node_id: bool = False
    without_cluster_id: bool = False


def _of(*roles: str, without_node_id: bool = False) -> Callers:
    return Callers(frozenset(roles), without_node_id)


_COORDINATORS: Final = (GROUP_COORDINATOR, TRANSACTION_COORDINATOR)

CALLERS: Final[Mapping[str, Callers]] = {
    # A process that starts while the metadata store is away has no image yet, and so may not know its cluster.
    peers.IMAGE_AT: Callers(ROLES, without_node_id=True, without_cluster_id=True),
    peers.IMAGE: Callers(ROLES, without_node_id=True, without_cluster_id=True),
    log_levels.DESCRIBE: _of(GATEWAY),
    log_levels.CHANGE: _of(GATEWAY),
    traces.TRACES: _of(GATEWAY, without_node_id=True),
    traces.TRACE: _of(GATEWAY, without_node_id=True),
    controller.HEARTBEAT: Callers(ROLES),
    controller.CREATE_TOPICS: _of(GATEWAY),
    controller.CREATE_INTERNAL_TOPIC: _of(GATEWAY),
    controller.DELETE_TOPICS: _of(GATEWAY),
    controller.CREATE_PARTITIONS: _of(GATEWAY),
    controller.ALTER_CONFIGS: _of(GATEWAY),
    controller.ALTER_CLIENT_QUOTAS: _of(GATEWAY),
    controller.ALTER_SCRAM_CREDENTIALS: _of(GATEWAY),
    controller.DESCRIBE_SCRAM_CREDENTIALS: _of(GATEWAY),
    controller.CREATE_ACLS: _of(GATEWAY),
    controller.DELETE_ACLS: _of(GATEWAY),
    controller.ELECT_LEADERS: _of(GATEWAY),
    controller.ALTER_REASSIGNMENTS: _of(GATEWAY),
    controller.UNREGISTER_BROKER: _of(GATEWAY),
    controller.UPDATE_FEATURES: _of(GATEWAY),
    controller.ALLOCATE_PRODUCER_IDS: _of(GATEWAY, TRANSACTION_COORDINATOR),
    controller.ASSIGN_DIRS: _of(STORAGE),
    controller.ALTER_PARTITIONS: _of(STORAGE),
    controller.WITHDRAW: _of(STORAGE),
    ownership.SHARD_OWNER: _of(STORAGE),
    storage.APPEND: _of(GATEWAY, *_COORDINATORS),
    storage.FETCH: _of(GATEWAY, *_COORDINATORS),
    storage.LIST_OFFSETS: _of(GATEWAY, GROUP_COORDINATOR),
    storage.DELETE_RECORDS: _of(GATEWAY),
    storage.END_OF_EPOCH: _of(GATEWAY),
    storage.DESCRIBE_PRODUCERS: _of(GATEWAY),
    storage.DESCRIBE_LOG_DIRS: _of(GATEWAY),
    storage.ALTER_LOG_DIRS: _of(GATEWAY),
    log_layout.LOG_LAYOUT: _of(GATEWAY),
    # A descriptor opens all records of a file, committed or not, whatever its partition.
    storage.OPEN_FILE: _of(GATEWAY, STORAGE),
    replication.PULL: _of(STORAGE),
    replication.PROGRESS: _of(STORAGE),
    # A storage node that starts probes a former process of its id without naming that id.
    storage.LOG_ENDS: _of(CONTROLLER, STORAGE, without_node_id=True),
    ownership.CLAIM: _of(*_COORDINATORS),
    transactions.WRITE_MARKERS: _of(GATEWAY, TRANSACTION_COORDINATOR),
    transactions.WRITE_GROUP_MARKERS: _of(GATEWAY, TRANSACTION_COORDINATOR),
    transactions.ADD_PARTITIONS: _of(STORAGE, GROUP_COORDINATOR),
    coordinators.ASK_GROUPS: _of(GATEWAY),
    coordinators.ASK_TRANSACTIONS: _of(GATEWAY),
    quotas.ASK: _of(GATEWAY),
}
