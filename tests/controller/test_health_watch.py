"""A controller knows since when the cluster is degraded, and the active one logs it."""

import asyncio
import logging

import pytest

from libs.clock import Monotonic, WallMs
from libs.cluster.configs.resolve import effective_topic_config
from libs.cluster.health import REBALANCE, LongRunning, Verdict, health_of
from libs.cluster.image import ClusterImage
from libs.cluster.records import CONTROLLER, GATEWAY, GROUP_COORDINATOR, TRANSACTION_COORDINATOR, Member
from services.controller.health_watch import LOGGED_AFTER, LOOK_S, HealthWatch
from tests.cluster.conftest import run_virtually
from tests.controller.images import image_of, led_by, storage

OTHERS = [Member(role, 1, 1, "") for role in (CONTROLLER, GATEWAY, GROUP_COORDINATOR, TRANSACTION_COORDINATOR)]
WHOLE = image_of(storage(1), *OTHERS, topics={"t": [led_by(1)]})
DOWN = image_of(*OTHERS, topics={"t": [led_by(1)]})


class FixedClock:
    now = 1_000

    def wall_ms(self) -> WallMs:
        return WallMs(self.now)

    def wall_ns(self) -> int:
        return self.wall_ms() * 1_000_000

    def monotonic(self) -> Monotonic:
        return Monotonic(self.now / 1000)


class Watched:
    """A watch whose image, clock and role the test sets."""

    def __init__(self, image: ClusterImage, *, elected: bool = True) -> None:
        self.registered = True
        self.image, self.elected, self.clock = image, elected, FixedClock()
        self.trouble = ""
        self.long_running: list[LongRunning] = []
        self.watch = HealthWatch(
            lambda: self.image,
            lambda: self.elected,
            lambda: self.registered,
            self.clock,
            lambda: self.trouble,
            lambda: self.long_running,
        )

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


def test_trouble_with_the_metadata_store_is_part_of_the_verdict() -> None:
    watched = Watched(ClusterImage())
    watched.at(1, WHOLE)
    watched.trouble = "the metadata store (etcd) takes 1.5 s and longer for a call"
    assert watched.at(2, WHOLE) == (Verdict.DEGRADED, 2)
    assert watched.watch.health().sentence == f"degraded: {watched.trouble}"
    assert watched.at(3, DOWN) == (Verdict.DEGRADED, 2)
    assert watched.watch.health().sentence.endswith(f", {watched.trouble}")
    watched.trouble = ""
    assert watched.at(4, WHOLE) == (Verdict.HEALTHY, 4)


def test_what_takes_too_long_is_told_while_the_verdict_stays() -> None:
    watched = Watched(WHOLE)
    watched.at(1_000, WHOLE)
    watched.long_running = [LongRunning(REBALANCE, "g", 1_000)]
    assert watched.at(61_000, WHOLE) == (Verdict.HEALTHY, None)
    assert watched.watch.health().sentence == "healthy: group g has been rebalancing for 60 s"
    watched.long_running = []
    assert watched.watch.health().sentence == "healthy"


def test_an_outage_of_the_metadata_store_begins_and_ends_a_verdict() -> None:
    watched = Watched(ClusterImage())
    watched.registered = False
    assert watched.at(1, WHOLE) == (Verdict.UNKNOWN, None)
    watched.registered = True
    assert watched.at(2, WHOLE) == (Verdict.HEALTHY, None)
    assert watched.at(3, DOWN) == (Verdict.DEGRADED, 3)
    watched.registered = False
    assert watched.at(5, DOWN) == (Verdict.UNKNOWN, 5)
    assert watched.at(7, DOWN) == (Verdict.UNKNOWN, 5)
    watched.registered = True
    assert watched.at(8, DOWN) == (Verdict.DEGRADED, 8)


def test_the_active_controller_logs_each_change_that_lasts_and_one_that_takes_over_what_it_finds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        watched = Watched(WHOLE, elected=False)
        running = asyncio.create_task(watched.watch.run())
        for image in (WHOLE, DOWN, WHOLE, DOWN):
            watched.image = image
            await asyncio.sleep(2 * LOOK_S)
        assert caplog.records == []
        watched.elected = True
        for image, looks in ((WHOLE, 3), (DOWN, LOGGED_AFTER - 1), (WHOLE, 1), (DOWN, LOGGED_AFTER + 3), (WHOLE, LOGGED_AFTER)):
            watched.image = image
            await asyncio.sleep(looks * LOOK_S)
        running.cancel()

    caplog.set_level(logging.INFO, logger="controller")
    run_virtually(scenario())
    lines = [(record.levelname, record.message, record.fields["was"]) for record in caplog.records]  # type: ignore[attr-defined]
    assert lines == [("WARNING", "the cluster is degraded", "healthy"), ("INFO", "the cluster is healthy", "degraded")]


def test_a_look_at_a_large_cluster_takes_little_time() -> None:
    """It walks over all partitions on the event loop, when nodes die too."""
    states = [led_by(1)] * 3
    image = image_of(storage(1), *OTHERS, topics={f"t{number}": states for number in range(3000)})
    resolved = 0

    def counted(*arguments: object, **options: object) -> object:
        nonlocal resolved
        resolved += 1
        return effective_topic_config(*arguments, **options)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("libs.cluster.health.effective_topic_config", counted)
        assert health_of(image).verdict is Verdict.HEALTHY
    assert resolved == 1
