"""Stories of three replicas: all messages of a failover, a truncation, an ISR shrink and a reassignment."""

from pathlib import Path

import pytest

from tests.simulation.replication.three_replicas import ThreeReplicas
from tests.support.stories import check_story

STORIES = sorted((Path(__file__).parent / "stories").glob("*.txt"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path) -> None:
    stage = ThreeReplicas()
    try:
        check_story(path, stage.run)
    finally:
        stage.simulator.discard()
