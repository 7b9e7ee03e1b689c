"""A gateway that clients attack with mutated requests lives, logs no failure, keeps its memory, and serves others."""

from collections.abc import Iterator

import pytest

from tests.fuzz.live.attacked_cluster import AttackedClusters
from tests.fuzz.live.sequences import MODES, attack

SEQUENCES = 100


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedClusters]:
    with AttackedClusters(tmp_path_factory.mktemp("attacked"), seconds_max=600) as clusters:
        yield clusters


@pytest.mark.parametrize("mode", range(len(MODES)), ids=MODES)
def test_a_calm_client_notices_nothing_of_mutated_requests(clusters: AttackedClusters, mode: int) -> None:
    for number in range(SEQUENCES):
        attack(clusters, mode + number * len(MODES))
