"""The effects that a replica has noted."""

from services.storage.core.effects import HIGH_WATERMARK_ROSE
from services.storage.core.replication.leader.replica import Replica


def rose(replica: Replica) -> bool:
    """Whether the high watermark rose since the effects were last taken; takes them."""
    return bool(replica.take_effects() & HIGH_WATERMARK_ROSE)
