"""The placement of replicas on the disks of a node, and its reports to the controller."""

from libs.lean_dataclass import dataclass
from services.storage.disks.directory_assignments import DirectoryAssignments
from services.storage.disks.disks import Disks
from services.storage.disks.requested_directories import RequestedDirectories
from services.storage.disks.withdrawals import ReplicaWithdrawals


@dataclass(frozen=True, slots=True)
class ReplicaPlacement:
    """The record of all that decides. `requested` has wishes of operators; `assignments` and `withdrawals` report to the
    controller."""

    disks: Disks
    assignments: DirectoryAssignments
    withdrawals: ReplicaWithdrawals
    requested: RequestedDirectories
