"""Advice for what controllers log."""

from typing import Final

from tests.docs.log_advice.advice import Advice

_ETCD: Final = "None if it is rare. Otherwise look at etcd's disk and log."

CONTROLLER: Final = {
    "a dead member is still registered": Advice(
        "etcd did not answer when a dead process was to be removed. It is tried again.", _ETCD
    ),
    "all are reached again": Advice("A way that was cut works again.", "None."),
    "cluster not created": Advice("The first controller could not write to etcd. It tries again.", "Bring etcd back."),
    "cut off from storage nodes": Advice(
        "The controller hears no storage node, so it declares none dead.",
        "Mend the network between controller and storage nodes.",
    ),
    "elected a leader that may lack acknowledged records": Advice(
        "No in-sync replica was left. The most complete log leads; `logs` has what each held.",
        "Compare the topic with its sources. [What is lost when](disaster.md) tells what may miss.",
    ),
    "elected, but the image is behind": Advice("A new active controller waits to have read etcd.", _ETCD),
    "elections not written": Advice("etcd did not confirm an election by logs. It is tried again.", _ETCD),
    "history not written": Advice("etcd did not confirm the mark of this term. It is tried again.", _ETCD),
    "leaders not moved to preferred replicas": Advice("etcd did not confirm the change. It is tried again.", _ETCD),
    "leadership lost": Advice(
        "This controller or quota manager is no longer the active one. `reason` tells why, and another one takes over.",
        "Look for pauses of the process or a slow etcd if it comes often.",
    ),
    "log ends not learned": Advice(
        "A storage node did not tell what it holds. The election waits for it.", "Look whether `node` runs and can be reached."
    ),
    "member removed": Advice("A process that was taken for dead was removed from the metadata.", "Start it again."),
    "metadata store is an older copy: each partition waits for the logs of all its replicas": Advice(
        "etcd was restored. Leaders are elected by what the logs hold.",
        "Start every storage node that has replicas. `way_out` has the rest.",
    ),
    "partition has no state": Advice(
        "etcd lacks the state of a partition.", "Restore the metadata, or [rebuild](restoring-metadata.md#rebuild) it."
    ),
    "partitions not reconciled": Advice("etcd did not confirm new leaders or ISRs. It is tried again.", _ETCD),
    "replicas lost their log directory: they are copied to another one": Advice(
        "A storage node came without a log directory. Its replicas are copied anew from their leaders.",
        "None, if the disk was replaced. Otherwise look at `node`.",
    ),
    "replicas not moved": Advice("etcd did not confirm a move of self-balancing. It is tried again.", _ETCD),
    "shards not assigned": Advice("etcd did not confirm new owners of shards. It is tried again.", _ETCD),
    "storage nodes are heard again": Advice("The controller is no longer cut off.", "None."),
    "storage nodes are not reached by all": Advice(
        "Some gateways or nodes do not reach a node that lives. Leaderships move to nodes that all reach.",
        "Mend the network between those that `callers` and `peers` name.",
    ),
    "taken for dead": Advice(
        "A process has been silent, and others confirm it. Its partitions or shards move.",
        "Start it again; its own log tells why it ended.",
    ),
    "the first users cannot be set (PENSTOCK_ADD_SCRAM_FILE)": Advice(
        "There is no cluster yet, and the file of its first users is missing or wrong. `reason` names the line only.",
        "Mend the file, and start again ([first users](../security.md#the-first-users)).",
    ),
    "the active controller is dead": Advice(
        "A standby removes the dead controller and takes over.", "Start the controller again."
    ),
    "the cluster is …": Advice(
        "The state of the cluster has changed to degraded or offline. `how` has the reason.",
        "Follow `how`; `make status` shows it too.",
    ),
    "the log directory of a last in-sync replica is gone: the partition waits for it": Advice(
        "Only that directory has all acknowledged records. The partition has no leader.",
        "Bring the directory back, or accept a loss as `way_out` says.",
    ),
}
