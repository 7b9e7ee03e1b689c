"""Lag as metrics, for as many partitions as an operator allows: each is a time series of its own in whatever scrapes them."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from services.group_coordinator.core.records import OffsetCommitted
from services.group_coordinator.lag import Lag, LagMeter
from services.group_coordinator.meters import NAME
from services.group_coordinator.seen import Seen

log = logging.getLogger(__name__)

EVERY_S: Final = 10.0


class LagSeries:
    """Of the first `series_max` by group, topic and partition; 0: none, and no leader is asked. `run` keeps them up to date."""

    def __init__(self, seen: Seen, lag: LagMeter, series_max: int) -> None:
        self._seen = seen
        self._lag = lag
        self._max = series_max
        self._found: list[tuple[OffsetCommitted, Lag]] = []
        self._left_out = 0

    async def run(self) -> None:
        """Until it is cancelled."""
        while self._max > 0:
            try:
                await self.look()
            except Exception:
                log.exception("lag is not known")
            await asyncio.sleep(EVERY_S)

    async def look(self) -> None:
        shown, left_out = self._seen.offsets(self._max)
        found: list[tuple[OffsetCommitted, Lag]] = []
        by_group: dict[str, list[OffsetCommitted]] = {}
        for each in shown:
            by_group.setdefault(each.group, []).append(each)
        for committed in by_group.values():
            lags = await self._lag.of(committed)
            found += [(each, lags[each.topic, each.partition]) for each in committed]
        self._found, self._left_out = found, left_out

    def collect(self) -> Iterator[Metric]:
        if self._max <= 0:
            return
        labels = ["group", "topic", "partition"]
        records = GaugeMetricFamily(NAME + "lag_records", "Offsets that a group has not read, by partition.", labels=labels)
        seconds = GaugeMetricFamily(NAME + "lag_seconds", "Age of the oldest record that a group has not read.", labels=labels)
        for each, lag in self._found:
            values = [each.group, each.topic, str(each.partition)]
            if lag.records is not None:
                records.add_metric(values, lag.records)
            if lag.seconds is not None:
                seconds.add_metric(values, lag.seconds)
        yield records
        yield seconds
        doc = "Partitions of groups without lag metrics, since PENSTOCK_LAG_SERIES_MAX are shown."
        yield GaugeMetricFamily(NAME + "lag_series_left_out", doc, self._left_out)
