"""Advice for what storage nodes log about disks, replicas and their work."""

from typing import Final

from tests.docs.log_advice.advice import Advice

_STRAY: Final = "Remove the directory if nobody misses it. [Strays](restoring-metadata.md#strays) tells how to have it back."
_DISK: Final = "Look at the kernel's log and the disk of `path`. [Disks](disks.md) has the steps."
_ROOM: Final = "Make room: [a full disk](disks.md#a-full-disk)."
_DESCRIPTORS: Final = "Raise `ulimit -n` of the storage node."

DISKS: Final = {
    "checkpoint not written": Advice("A small file of a log directory was not replaced. It is tried again.", _DISK),
    "directory set aside, remove it if nobody misses it": Advice(
        "A directory had a partition's name and was not its log.", _STRAY
    ),
    "log directory belongs to another …": Advice(
        "The directory was used by another node or cluster. The node does not start.",
        "Give the node its own directory. [More](../use/troubleshooting.md#a-node-does-not-start).",
    ),
    "log directory cannot be used": Advice(
        "A log directory does not open, or was retired. The node goes on with the others.",
        "[Replace the disk](disks.md#a-failed-disk), or mend what `reason` says.",
    ),
    "log directory could not be marked as retired": Advice(
        "A failed directory takes no file. The next start may use it again.",
        "Take it out of `PENSTOCK_LOG_DIRS` before the next start.",
    ),
    "log directory is an older copy of itself: its replicas lead only after a survey": Advice(
        "A volume was restored from a snapshot. It lacks records that it had.",
        "Start all nodes that have its replicas. [More](../reliability.md#when-a-volume-goes-back).",
    ),
    "log directory is full: appends are refused": Advice(
        "Appends are refused and reads go on. Other in-sync replicas lead meanwhile.", _ROOM
    ),
    "log directory is gone, the replica is copied anew from its leader": Advice(
        "A replica's directory is not there, and others have its records.", "None, if the disk was replaced."
    ),
    "log directory is nearly full": Advice("Less than `warned_below_bytes` are free.", _ROOM),
    "log directory is not here, the replica waits for one that failed": Advice(
        "A configured directory fails, and may be the one that holds the replica.",
        "Repair, empty or take out the failed directory.",
    ),
    "log directory is not here, to be copied anew once another replica leads": Advice(
        "A replica's directory is gone, and no other replica leads yet.", "Start the nodes of the other replicas."
    ),
    "log directory not closed cleanly": Advice("A stop could not write all. The next start recovers the directory.", _DISK),
    "log directory of a last in-sync replica is not here, nobody leads": Advice(
        "Only the missing directory has all acknowledged records.", "Bring it back, or accept a loss as `way_out` says."
    ),
    "log directory retired": Advice(
        "A sync failed, so the node never uses the directory again. Other replicas lead.",
        "[Replace the disk](disks.md#a-failed-disk).",
    ),
    "no room for the files that a sync round writes beside the logs": Advice("The disk is full. Records are safe.", _ROOM),
    "read failed, and so will every read of this place": Advice(
        "A place of a segment cannot be read. Consumers get KAFKA_STORAGE_ERROR there.",
        "Let another replica lead, then [replace the disk](disks.md#a-failed-disk).",
    ),
    "space of a log directory is not known": Advice("The file system does not tell its free space.", _DISK),
    "storage node cannot start": Advice(
        "`reason` names the mistake.", "Look `reason` up in [troubleshooting](../use/troubleshooting.md#a-node-does-not-start)."
    ),
    "stray partition cannot be renamed": Advice("A directory that no metadata ask for stays under its name.", _DISK),
    "stray partition of the same name set aside, remove it if nobody misses it": Advice(
        "An older topic of that name had left its log.", _STRAY
    ),
    "stray partition set aside, remove it if nobody misses it": Advice(
        "A log that no metadata ask for. `reason` tells why.", _STRAY
    ),
    "sync hangs": Advice("The disk has not ended a sync for seconds. Other replicas lead meanwhile.", _DISK),
    "sync returned": Advice(
        "The disk answers again, and the directory is used again.", "None if it is rare. Otherwise replace the disk."
    ),
    "volume stamp not written": Advice("A volume that is restored later might not be recognised.", _DISK),
}

WORK: Final = {
    "a log is not cleaned until it is opened again": Advice(
        "Compaction found damage in a log. The log grows meanwhile.",
        "[Verify](../inspect.md) the log, then restart the node.",
    ),
    "batches cannot be opened for compaction": Advice(
        "Batches hold more than 128 MiB when decompressed, or bytes that are no records. They stay, and so do tombstones behind "
        "them. All else is compacted.",
        "Find their producer. `kafka-delete-records` up to an offset behind them removes them.",
    ),
    "cleaning failed, it is tried again later": Advice(
        "Compaction of a log failed once. `reason` tells why.", "Look at it if it comes again."
    ),
    "cleaned offset not lowered, nothing is cut": Advice("A follower must cut its log, and waits for this file.", _DISK),
    "directory of a deleted partition stays until the next start": Advice(
        "Its files are gone, but a checkpoint still names the partition. The next start removes the empty directory.", _DISK
    ),
    "files of a deleted partition stay": Advice("Files could not be removed. The next start removes them.", _DISK),
    "files of deleted partitions stay": Advice("Files could not be removed. The next start removes them.", _DISK),
    "partition cannot be deleted": Advice("Files of a deleted topic could not be renamed.", _DISK),
    "partition waits for another sync round": Advice("No descriptor was left. Produces wait for the next round.", _DESCRIPTORS),
    "retention of a partition failed": Advice("Old segments stay until the next check.", _DISK),
    "retention waits for a disk that does not answer": Advice("Old segments stay until the disk answers.", _DISK),
    "retired segments not renamed": Advice("Deleted segments keep their names. The next start removes them.", _DISK),
    "retired segments stay until the next start": Advice("Deleted segments keep their disk space.", _DISK),
    "sync round waits for descriptors": Advice("No descriptor was left. Produces with acks=all wait.", _DESCRIPTORS),
    "the cleaner waits for a disk that does not answer": Advice("Compaction pauses until the disk answers.", _DISK),
    "the clock is believed again": Advice("The clock is right again, or has stayed ahead for an hour.", "None."),
    "the clock jumped ahead, nothing is deleted for that yet: set it right if it is wrong": Advice(
        "The host's clock went ahead by ten minutes or more.",
        "Set the clock within an hour. Later the node deletes by the new time.",
    ),
    "the cluster image could not be saved": Advice(
        "`make rebuild` would lack the latest changes from this node.", "Make room, or mend the disk of `path`."
    ),
}

REPLICAS: Final = {
    "a follower holds up acks=all": Advice(
        "A Produce waited more than half a second for this follower, which then went on.",
        "Again and again: look at the disk, the CPU and the network of `follower`.",
    ),
    "a leader's batches do not continue the log": Advice(
        "A follower refused what its leader sent. It asks again.", "Report it if it comes again for one partition."
    ),
    "append failed": Advice("The disk refused an append. A gateway writes it too, if a node's answer cannot be read.", _DISK),
    "batches not opened": Advice(
        "A process that checks records ended. Each batch is tried once more, alone.",
        "Look for the kernel's OOM killer. Report it otherwise.",
    ),
    "batch not opened for a lookup": Advice(
        "A process that walks through records for a ListOffsets ended. The answer is the batch's first offset.",
        "Look for the kernel's OOM killer. Report it otherwise.",
    ),
    "cannot pull from a leader": Advice(
        "A follower does not reach its leader's node.", "Look whether `leader` runs and can be reached."
    ),
    "copy of a replica kept, its log is not here": Advice(
        "A replica was moving from a directory that is missing.", "Bring the missing directory back."
    ),
    "copy of a replica stays until the next start": Advice("A useless copy could not be removed.", _DISK),
    "damaged log set aside, the replica is copied anew": Advice(
        "A follower's log was damaged. The leader has its records.", _DISK
    ),
    "log cannot be opened": Advice("A partition is offline on this node. `reason` tells why.", _DISK),
    "log cannot be opened: its log directory is full": Advice("A partition is offline on this node until there is room.", _ROOM),
    "log directory is too slow to move to it now": Advice(
        "The last step of a move took more than 2 s. It is tried again.", "Move at a quieter time, or look at the target's disk."
    ),
    "metadata is older than the log, which waits for a later epoch": Advice(
        "etcd was restored, and knows less than this log.",
        "[Rebuild](restoring-metadata.md#rebuild), or restart the node until its epoch is higher.",
    ),
    "move of a replica waits": Advice(
        "A move between directories is tried again. `reason` tells why.", "Make room in the target, or mend its disk."
    ),
    "moves between log directories cannot restart": Advice("Copies of moves cannot be listed after a start.", _DISK),
    "partition is offline: synced records are missing": Advice(
        "A file that was on the disk is gone or shorter. The rest of the node serves.",
        "Put the file back, or do what `way_out` says. [More](../inspect.md).",
    ),
    "recovery process died, recovering in this one": Advice(
        "A child process ended while it read a log.", "Look for the kernel's OOM killer."
    ),
    "recovery process hangs, it was killed and is tried again": Advice("A log could not be read in time after a crash.", _DISK),
    "replica has no log here: it was to move from a log directory that is missing": Advice(
        "The replica does not begin empty, since its log is elsewhere.",
        "Bring the missing directory back, or let another replica lead.",
    ),
    "replica stays in its log directory": Advice(
        "A move between directories ended without effect.", "Mend what `reason` says, and move it again."
    ),
    "replicas withdrawn": Advice(
        "The node told the controller that it cannot serve some replicas. Others lead.",
        "Look at the lines before: they name the disk or the log.",
    ),
    "stopping before other nodes have taken over": Advice(
        "A node stops while `partitions` still need it.", "Stop one node at a time, and wait until `make status` is healthy."
    ),
    "two directories hold the same partition: the older one set aside": Advice(
        "A move between directories was cut short by a crash. The newer log is used.", "Remove `path` if nobody misses it."
    ),
}

STORAGE: Final = DISKS | WORK | REPLICAS
