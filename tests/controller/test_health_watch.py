"""A controller knows since when the cluster is degraded, and the active one logs it."""

import logging

import pytest

from libs.clock import Monotonic, WallMs
from libs.cluster.health import Verdict
from libs.cluster.image import ClusterImage
from libs.cluster.records import CONTROLLER, GATEWAY, GROUP_COORDINATOR, Member
from services.controller.health_watch import HealthWatch
from tests.controller.images import image_of, led_by, storage

OTHERS = [Member(role, 1, 1, "") for role in (CONTROLLER, GATEWAY, GROUP_COORDINATOR)]
WHOLE = image_of(storage(1), *OTHERS, topics={"t": [led_by(1)]})
DOWN = image_of(*OTHERS, topics={"t": [led_by(1)]})


class FixedClock:
    now = 1_000

    def wall_ms(self) -> WallMs:
        return WallMs(self.now)

    def monotonic(self) -> Monotonic:
        return Monotonic(self.now / 1000)


class Watched:
    """A watch whose image, clock and role the test sets."""

    def __init__(self, image: ClusterImage, *, elected: bool = True) -> None:
        self.image, self.clock = image, FixedClock()
        self.watch = HealthWatch(lambda: self.image, lambda: elected, self.clock)

    def at(self, now: int, image: ClusterImage) -> tuple[Verdict, int | None]:
        self.clock.now, self.image = now, image
        health = self.watch.health()
        return health.verdict, health.since_ms


def test_since_when_a_verdict_holds_is_known_once_it_has_changed() -> None:
    watched = Watched(ClusterImage())
    assert watched.at(1, ClusterImage()) == (Verdict.UNKNOWN, None)
    assert watched.at(2, WHOLE) == (Verdict.HEALTHY, None)
    assert watched.at(3, DOWN) == (Verdict.DEGRADED, 3)
    assert watched.at(9, image_of(*OTHERS, topics={"t": [led_by(1)], "u": [led_by(1)]})) == (Verdict.DEGRADED, 3)
    assert watched.at(12, WHOLE) == (Verdict.HEALTHY, 12)


@pytest.mark.parametrize("elected", [True, False])
def test_the_active_controller_logs_each_change(caplog: pytest.LogCaptureFixture, elected: bool) -> None:
    caplog.set_level(logging.INFO)
    watched = Watched(WHOLE, elected=elected)
    for now, image in enumerate((WHOLE, DOWN, DOWN, WHOLE)):
        watched.at(now, image)
    lines = [(record.levelname, record.message, record.fields["was"]) for record in caplog.records]  # type: ignore[attr-defined]
    assert lines == (
        [("WARNING", "the cluster is degraded", "healthy"), ("INFO", "the cluster is healthy", "degraded")] if elected else []
    )
