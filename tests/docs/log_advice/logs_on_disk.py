"""Advice for what storage nodes log when they open logs, mostly after a crash."""

from typing import Final

from tests.docs.log_advice.advice import Advice

_AFTER_A_CRASH: Final = "None after a crash or power cut. Otherwise look at the disk."
_DISK: Final = "Look at the kernel's log and the disk. [Disks](disks.md) has the steps."

LOGS: Final = {
    "checkpoint ignored: …": Advice("A checkpoint is damaged. The logs tell what it held.", _AFTER_A_CRASH),
    "entries left out: …": Advice("Entries of an index were not written. Lookups read a little more.", _DISK),
    "index made again: …": Advice("An index file was cut. It was made anew from its log.", _DISK),
    "leader epochs read again from the batches: …": Advice(
        "`leader-epoch-checkpoint` is damaged. The log tells what it held.", _AFTER_A_CRASH
    ),
    "no room could be reserved for …: …": Advice(
        "A small file has no reserved room. On a full disk it may stay old.", "Make room: [a full disk](disks.md#a-full-disk)."
    ),
    "… cannot be written (…), so the next process counts as one that may lack records": Advice(
        "The data directory's disk is full at a start, and the file `survival` has no room.",
        "Make room: [a full disk](disks.md#a-full-disk). Until then, a restart counts as one that may have lost records.",
    ),
    "not taken for a partition: …": Advice(
        "`partition.metadata` of a directory is damaged.", "Put the file back, or remove the directory."
    ),
    "producer snapshot ignored: …": Advice("A snapshot of producers is damaged. The log is read instead.", _AFTER_A_CRASH),
    "resume point ignored: …": Advice("A resume point is damaged. More of the log is read.", _AFTER_A_CRASH),
    "swap undone: …": Advice("A compaction was cut short. Its sources are used.", _AFTER_A_CRASH),
    "… cut at byte …, offset …: … bytes and … later segments were not whole": Advice(
        "The end of a log was not whole, and was cut. Nothing that was synced is lost.", _AFTER_A_CRASH
    ),
    "… ends at …, before its start: begun anew at …": Advice(
        "A log had only records that DeleteRecords or retention had deleted. It begins empty.", _AFTER_A_CRASH
    ),
    "… has segments and no …: taken for the partition of that name": Advice(
        "`partition.metadata` is missing. The directory's name counts.", "None, if the files came from an old Kafka."
    ),
    "… is damaged, so records of the former process may be lost: …": Advice(
        "The file of the last clean stop is damaged. Topics with `durability=replicated` may have lost records.",
        "Compare such topics with their sources, after a power cut.",
    ),
    "… is renamed, since its content is of offset …": Advice("A resume point had a wrong name.", _DISK),
    "…-… was marked clean, but … bytes had to be read": Advice(
        "A log changed after a clean stop.", "Find what wrote to the log directory."
    ),
    "…: an append could not be undone: …": Advice(
        "The disk failed twice. The directory is retired.", "[Replace the disk](disks.md#a-failed-disk)."
    ),
    "…: loss accepted: …": Advice("`accept-loss` was run, and the log goes on without the lost records.", "None."),
    "…; made again from the batches, with … aborted transactions": Advice(
        "A `.txnindex` file is damaged. It was made anew from its log.", _AFTER_A_CRASH
    ),
}
