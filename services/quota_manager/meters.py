"""Metrics of a quota manager, computed when somebody scrapes."""

from typing import Final

from libs.telemetry.definitions import CounterDefinition, GaugeDefinition, MetricSet
from services.quota_manager.quota_manager import QuotaManager

NAME: Final = "penstock_quota_manager_"


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
