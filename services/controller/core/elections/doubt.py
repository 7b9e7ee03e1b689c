"""Partitions in doubt, after the metadata store was restored from a backup. Leaders, ISRs and the epochs given out since then are
unknown. The logs know it.

Each replica counts as one that may have lost records, and no former incarnation is believed. So the last-resort election takes
place (`leader_election.py`): it waits for the logs of all replicas, and the most complete one leads.
"""

from dataclasses import replace
from typing import Final

from libs.cluster.image import ClusterImage
from libs.cluster.records import InSync, PartitionState
from services.controller.core.elections.leader_election import NO_INCARNATION, NO_LEADER

EPOCHS_SKIPPED: Final = 1_000
"""Epochs that the lost branch may have given out since the backup. An epoch must not name two leaders."""
PRODUCER_IDS_SKIPPED: Final = 10_000_000
"""Producer ids that the lost branch may have given out since the backup."""


def in_doubt(state: PartitionState) -> PartitionState:
    """The state without a leader, in an epoch that no lost branch knows, with all replicas as doubtful members of the ISR.

    Rule: replicas that a reassignment adds are asked, too. They may hold nothing. Or the reassignment went on after the backup,
    and they alone hold what was acknowledged since.
    """
    return replace(
        state,
        leader=NO_LEADER,
        leader_incarnation=NO_INCARNATION,
        leader_epoch=state.leader_epoch + EPOCHS_SKIPPED,
        owner_epoch=state.owner_epoch + EPOCHS_SKIPPED if state.owner_epoch else 0,  # markers of transactions have it in logs
        partition_epoch=state.partition_epoch + 1,
        isr=tuple([InSync(replica.node_id, NO_INCARNATION) for replica in state.replicas]),
        withdrawn=(),
        recovering=False,
        lax=True,
    )


def all_in_doubt(image: ClusterImage) -> list[tuple[bytes, int, PartitionState]]:
    return [(topic_id, index, in_doubt(state)) for topic_id, index, state in image.states()]
