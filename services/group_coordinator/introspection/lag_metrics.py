"""Lag metrics, under the names of kafka_exporter, for as many partitions as an operator allows: each has time series of its own.

Leaders are asked while somebody scrapes, and for a while after. A cluster without Prometheus pays nothing.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import Final

from libs.telemetry.definitions import Family, FamilySource, GaugeDefinition, MetricSet, Rows
from services.group_coordinator.core.model.records import OffsetCommitted
from services.group_coordinator.introspection.groups import GroupViews
from services.group_coordinator.lag.lag_meter import Lag, LagMeter
from services.group_coordinator.telemetry.group_meters import NAME

log = logging.getLogger("groups")

EVERY_S: Final = 10.0
WATCHED_S: Final = 150.0
"""The time after a scrape for which lags are measured: scrapes come more often."""

LABELS: Final = ("consumergroup", "topic", "partition")


class LagGauges(MetricSet):
    """The lags that were measured last, at a scrape, for which it is made."""

    def __init__(self, lags: Sequence[tuple[OffsetCommitted, Lag]], left_out: int) -> None:
        super().__init__()
        self._lags = [((each.group, each.topic, str(each.partition)), each.offset, lag) for each, lag in lags]
        self._left_out = left_out

    @GaugeDefinition(
        name="kafka_consumergroup_lag",
        help="Records that a group has not committed yet, by group, topic and partition. The first scrape has none yet.",
        labels=LABELS,
        healthy="steady; it depends on the consumer",
        otherwise="It grows: the consumer is too slow or stopped. Add members, up to the number of partitions.",
    )
    def lag_records(self) -> Rows:
        return [(labels, lag.records) for labels, _, lag in self._lags if lag.records is not None]

    @GaugeDefinition(
        name="kafka_consumergroup_current_offset",
        help="Committed offset of a group, by group, topic and partition.",
        labels=LABELS,
        healthy="follows `kafka_log_log_logendoffset`",
        otherwise="It stands still: as for `kafka_consumergroup_lag`.",
    )
    def current_offset(self) -> Rows:
        return [(labels, offset) for labels, offset, _ in self._lags]

    @GaugeDefinition(
        name="penstock_consumergroup_lag_seconds",
        help="Age in seconds of the oldest record that a group has not committed yet, by group, topic and partition.",
        labels=LABELS,
        healthy="below what the application promises",
        otherwise="As for `kafka_consumergroup_lag`. Close to the topic's retention, records are lost to the group.",
    )
    def lag_seconds(self) -> Rows:
        return [(labels, lag.seconds) for labels, _, lag in self._lags if lag.seconds is not None]

    @GaugeDefinition(
        name=NAME + "lag_series_left_out",
        help="Partitions of groups without lag metrics, since PENSTOCK_LAG_SERIES_MAX are shown.",
        healthy="0",
        otherwise="Raise `PENSTOCK_LAG_SERIES_MAX`, or ask `/debug/groups/GROUP` for the lag.",
    )
    def left_out(self) -> int:
        return self._left_out


class LagMetrics(FamilySource):
    """The lag of the first `series_max` partitions by group, topic and partition. 0: none, and no leader is asked. `run` keeps it
    up to date while it is read."""

    def __init__(self, group_views: GroupViews, lag: LagMeter, series_max: int) -> None:
        self._group_views = group_views
        self._lag = lag
        self._max = series_max
        self._lags: list[tuple[OffsetCommitted, Lag]] = []
        self._left_out = 0
        self._scraped_at = float("-inf")
        self._scraped = asyncio.Event()

    async def run(self) -> None:
        """Measures the lag regularly while somebody wants to know, until cancelled."""
        loop = asyncio.get_running_loop()
        while self._max > 0:
            if loop.time() - self._scraped_at > WATCHED_S:
                self._lags, self._left_out = [], 0
                self._scraped.clear()
                await self._scraped.wait()
            try:
                await self.look()
            except Exception:
                log.exception("lag is not known")
            await asyncio.sleep(EVERY_S)

    async def look(self) -> None:
        shown, left_out = await self._group_views.offsets(self._max)
        measured: list[tuple[OffsetCommitted, Lag]] = []
        by_group: dict[str, list[OffsetCommitted]] = {}
        for each in shown:
            by_group.setdefault(each.group, []).append(each)
        for committed in by_group.values():
            lags = await self._lag.of(committed)
            measured += [(each, lags[each.topic, each.partition]) for each in committed]
        self._lags, self._left_out = measured, left_out

    def families(self) -> Iterator[Family | None]:
        if self._max <= 0:
            return
        self._scraped_at = asyncio.get_running_loop().time()
        self._scraped.set()
        yield from LagGauges(self._lags, self._left_out).families()
