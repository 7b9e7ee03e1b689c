"""All logs of a node: on which disks they lie, which are open, and what their checkpoints say."""

from libs.lean_dataclass import dataclass
from services.storage.disks.disk_reads import DiskReads
from services.storage.disks.disks import Disk, Disks
from services.storage.logs.checkpoints import Checkpoints
from services.storage.logs.log_start_offsets import LogStartOffsets
from services.storage.partition.open_logs import OpenLogs


@dataclass(frozen=True, slots=True)
class NodeLogs:
    """The record for everything that works on many logs."""

    disks: Disks
    open_logs: OpenLogs[Disk]
    checkpoints: Checkpoints
    starts: LogStartOffsets
    reads: DiskReads
