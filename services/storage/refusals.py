"""Why a storage node cannot start on a log directory, in the one line that tells an operator what is wrong, and what to do."""

from libs.commitlog.model.errors import DirectoryDamaged, DirectoryLocked, DirectoryOwnerMismatch, DirectoryRetired
from libs.runtime.lifecycle import CannotRun
from services.storage.registration import NodeIdTaken

REFUSALS = (DirectoryOwnerMismatch, DirectoryLocked, DirectoryRetired, DirectoryDamaged, NodeIdTaken)
OTHER_CLUSTER = (
    "keep it, its records may be the only ones. If etcd's data was lost: make down, make rebuild, make up. "
    "If it is no cluster of yours: choose another directory by PENSTOCK_LOG_DIRS"
)
OTHER_NODE = "keep it for that node, and give this one a directory of its own by PENSTOCK_LOG_DIRS"


def refusal(error: Exception) -> CannotRun:
    """The refusal of a start, for one of `REFUSALS`."""
    if not isinstance(error, DirectoryOwnerMismatch):
        return CannotRun("storage node cannot start", reason=error)
    return CannotRun(
        f"log directory belongs to another {error.owner}",
        path=error.path,
        theirs=error.theirs,
        ours=error.ours,
        way_out=OTHER_CLUSTER if error.owner == "cluster" else OTHER_NODE,
    )
