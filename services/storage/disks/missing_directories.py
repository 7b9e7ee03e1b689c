"""The log line for a replica whose log directory is not here: why it is not served, and what helps."""

import logging
from collections.abc import Mapping

from libs.cluster.lost_directories import way_out
from libs.cluster.records import Member, PartitionState, Topic
from libs.telemetry.logs import fields
from services.storage.core.replication.leadership import assigned_directory
from services.storage.partition.partition import Key

log = logging.getLogger("disks")

NO_LONGER = (
    "repair the directory and restart; or take it out of the node's log directories and restart: "
    "then the replica is copied from its leader"
)


def report(key: Key, topic: Topic, state: PartitionState, node_id: int, *, members: Mapping[int, Member], failed: bool) -> None:
    """Logs the case. `failed`: a configured log directory does not work, and may be the missing one."""
    in_sync = any(member.node_id == node_id for member in state.isr)
    details = {"topic": topic.name, "partition": key[1], "directory": assigned_directory(state, node_id)}
    if in_sync and (len(state.isr) == 1 or state.leader < 0):
        advice = way_out(state, (node_id,), members)
        log.error("log directory of a last in-sync replica is not here, nobody leads", extra=fields(**details, way_out=advice))
    elif failed:
        log.error("log directory is not here, the replica waits for one that failed", extra=fields(**details, way_out=NO_LONGER))
    elif in_sync or state.leader < 0:
        log.error("log directory is not here, to be copied anew once another replica leads", extra=fields(**details))
    else:
        log.warning("log directory is gone, the replica is copied anew from its leader", extra=fields(**details))
