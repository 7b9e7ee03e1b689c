"""Metrics of a quota manager, computed when somebody scrapes."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from libs.cluster.client_quotas import CLIENT_KEYS, FETCH, PRODUCE, REQUEST
from libs.cluster.records import QuotaEntity
from libs.telemetry.definitions import CounterDefinition, Family, GaugeDefinition, Labels, MetricSet, Rows, with_pauses
from services.quota_manager.core.account import Account
from services.quota_manager.quota_manager import QuotaManager

SERIES_MAX: Final = 300
"""Entities of one kind of quota that have metrics of their own."""
CONFIGURED_MAX: Final = 10_000
"""Configured entities among which a scrape looks for these."""
ENTITIES_AT_ONCE: Final = 200
"""Configured entities that a scrape looks at between two pauses: less than 1 ms."""
NAME: Final = "penstock_quota_manager_"
LABELS: Final = ("user", "client_id")
BYTES: Final = "near its quota, or below; see [quotas](../quotas.md#why-a-client-is-slow)"
NAMED: Final = "In the whole cluster, for entities that a quota names. An average of about ten seconds."


class Meters(MetricSet):
    """The collector of the process."""

    def __init__(self, manager: QuotaManager) -> None:
        super().__init__()
        self._manager = manager

    @GaugeDefinition(
        name=NAME + "elected",
        help="1 while this process grants, 0 while it stands by.",
        healthy="1 in one process of the cluster",
        otherwise="0 in all: gateways spend limit / N each. No quota manager runs, or none reaches etcd.",
    )
    def elected(self) -> int:
        return int(self._manager.elected)

    @GaugeDefinition(
        name=NAME + "entities",
        help="Entities that used a limited quota in the last seconds.",
        healthy="as many as users and clients with limits are at work",
    )
    def entities(self) -> int:
        return self._manager.entities

    @GaugeDefinition(
        name=NAME + "silent_gateways",
        help="Registered gateways that have not confirmed an answer lately. Their part of each limit is kept back.",
        healthy="0; the number of gateways for a second after a quota manager is elected",
        otherwise="Such a gateway cannot reach the quota manager, and spends limit / N by itself.",
    )
    def silent_gateways(self) -> int:
        return self._manager.gateways()["silent"]

    @CounterDefinition(
        name=NAME + "asks",
        help="Asks of gateways that were answered with grants.",
        healthy="3 a second for each gateway, up to 20 while entities use up their limits",
    )
    def asks(self) -> int:
        return self._manager.asks

    def families(self) -> Iterator[Family | None]:
        yield from super().families()
        yield from EntityGauges(self._manager).families()


class EntityGauges(MetricSet):
    """The entities of each kind of quota in use at a scrape, for which it is made: `SERIES_MAX` of them, those that came first.

    Entities of a default are not among them: clients choose their ids, and so their number.
    """

    def __init__(self, manager: QuotaManager) -> None:
        super().__init__()
        self._manager = manager
        self._now = asyncio.get_running_loop().time()
        self._shown: dict[int, list[tuple[Labels, Account]]] = {kind: [] for kind in (PRODUCE, FETCH, REQUEST)}
        self._left_out = 0

    def families(self) -> Iterator[Family | None]:
        configured = list(islice(self._manager.image.client_quotas.items(), CONFIGURED_MAX))
        yield from with_pauses(configured, self._look, ENTITIES_AT_ONCE)
        yield from super().families()

    def _look(self, configured: Sequence[tuple[QuotaEntity, Mapping[str, float]]]) -> None:
        for entity, values in configured:
            if entity.ip is not None or "" in (entity.user, entity.client_id):
                continue
            for kind, shown in self._shown.items():
                account = self._manager.account(kind, entity) if CLIENT_KEYS[kind] in values else None
                if account is not None and len(shown) < SERIES_MAX:
                    shown.append(((entity.user or "", entity.client_id or ""), account))
                elif account is not None:
                    self._left_out += 1

    @GaugeDefinition(
        name=NAME + "entities_without_series",
        help=f"Entities in use that a quota names and that have no series of their own: beyond {SERIES_MAX} of a kind of quota. "
        f"A scrape looks for them among the first {CONFIGURED_MAX:,} configured ones.",
        healthy="0",
        otherwise="`/debug/quotas` shows those that owe most.",
    )
    def left_out(self) -> int:
        return self._left_out

    @GaugeDefinition(
        name="kafka_server_produce_byte_rate",
        help="The bytes a second of Produce requests. " + NAMED,
        labels=LABELS,
        healthy=BYTES,
    )
    def produce_byte_rate(self) -> Rows:
        return self._rows(PRODUCE, Account.used_per_s)

    @GaugeDefinition(
        name="kafka_server_produce_throttle_time",
        help="The throttle time in ms of answers to Produce that told one. " + NAMED,
        labels=LABELS,
        healthy="0",
        otherwise="its clients want more than its quota: raise it, or let them wait",
    )
    def produce_throttle_time(self) -> Rows:
        return self._rows(PRODUCE, Account.throttle_time_ms)

    @GaugeDefinition(
        name="kafka_server_fetch_byte_rate",
        help="The bytes a second of answers to Fetch. " + NAMED,
        labels=LABELS,
        healthy=BYTES,
    )
    def fetch_byte_rate(self) -> Rows:
        return self._rows(FETCH, Account.used_per_s)

    @GaugeDefinition(
        name="kafka_server_fetch_throttle_time",
        help="The throttle time in ms of answers to Fetch that told one. " + NAMED,
        labels=LABELS,
        healthy="0",
        otherwise="its clients want more than its quota: raise it, or let them wait",
    )
    def fetch_throttle_time(self) -> Rows:
        return self._rows(FETCH, Account.throttle_time_ms)

    @GaugeDefinition(
        name="kafka_server_request_request_time",
        help="Percent of one core that gateways work for requests. " + NAMED,
        labels=LABELS,
        healthy=BYTES,
    )
    def request_time(self) -> Rows:
        return self._rows(REQUEST, Account.used_per_s)

    @GaugeDefinition(
        name="kafka_server_request_throttle_time",
        help="The throttle time in ms of answers that told one for it. " + NAMED,
        labels=LABELS,
        healthy="0",
        otherwise="its clients want more than its quota: raise it, or let them wait",
    )
    def request_throttle_time(self) -> Rows:
        return self._rows(REQUEST, Account.throttle_time_ms)

    def _rows(self, kind: int, read: Callable[[Account, float], float]) -> Rows:
        return ((labels, read(account, self._now)) for labels, account in self._shown[kind])
