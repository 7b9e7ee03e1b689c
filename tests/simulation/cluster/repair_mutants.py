"""Bugs that are planted into what follows a repair, to see whether the scenes of `repairs.py` notice them.

`python -m tests.simulation.planted repairs` prints the number of seeds that each takes.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from unittest.mock import patch

from libs.cluster import image_follower
from libs.rpc.contracts.storage import LogEnds
from services.controller.core.elections import leader_election
from services.controller.elections import log_end_survey
from services.storage.disks.volume_stamps import VolumeStamps
from tests.simulation.cluster.repairs import (
    one_volume_goes_back,
    rolled_back_while_all_run,
    rolled_back_while_the_leader_is_cut_off,
)
from tests.simulation.cluster.scenarios import Cluster, play
from tests.simulation.planted import Bug, Mutant, PlantedBugs

Scene = Callable[[Cluster], Awaitable[None]]

SCENES: tuple[Scene, ...] = (
    one_volume_goes_back,
    rolled_back_while_the_leader_is_cut_off,
    partial(rolled_back_while_all_run, writes=200),
)
SURVEYED = "if not any(went_back(state, node_id, live[node_id]) for node_id in in_sync):"


def violations_of(seed: int) -> list[str]:
    violations: list[str] = []

    async def scene_of(scene: Scene, cluster: Cluster) -> None:
        try:
            await scene(cluster)
        except (AssertionError, TimeoutError) as failure:  # its frames must go before the loop does
            violations.append(str(failure) or "it took too long")

    for scene in SCENES:
        play(seed, partial(scene_of, scene))
        if violations:
            break
    return violations


def lost_branches_are_followed() -> Any:
    """Whatever the store shows is taken for the next image."""
    return patch.object(image_follower, "went_back", lambda old, new, listed: False)


def surveys_name_no_epoch() -> Any:
    """A log tells its end while it may still grow in an older epoch."""
    return patch.object(log_end_survey, "LogEnds", lambda partitions, leader_epochs: LogEnds(partitions))


MUTANTS: dict[str, Bug] = {
    "a store that went back is followed": Bug(lost_branches_are_followed, range(3)),
    "a volume that went back passes for whole": Bug(
        Mutant(VolumeStamps.compare, "if own < recorded:", "if False:").planted, range(3)
    ),
    "of a volume that went back only the ISR is surveyed": Bug(
        Mutant(leader_election.last_resort, SURVEYED, "if True:").planted, range(3)
    ),
    "a log tells its end while it may still grow in an older epoch": Bug(surveys_name_no_epoch, range(3)),
}
"""Each with the seeds within which it is caught."""

BUGS = PlantedBugs("repairs", violations_of, MUTANTS)
