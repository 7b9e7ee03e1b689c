"""What happens to gateways, quota managers and the store while clients want more than they may."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from tests.simulation.cluster.processes import STORE_HOST
from tests.simulation.cluster.world import World
from tests.simulation.quotas.processes import LimitingGateway, QuotaManagerProcess
from tests.simulation.quotas.promise import Cut

ELECTED_S: Final = 5.0
"""The lease of an election, the time that a gateway is alone before it is heard again, and some more."""
AGAIN_S: Final = 1.5
"""The time until all is as before a fault that took nobody's lease."""
STOPS: Final = 6


class Faults:
    """One fault after another. `cuts` and `troubled` say when they were."""

    def __init__(self, world: World, gateways: Sequence[LimitingGateway], managers: Sequence[QuotaManagerProcess]) -> None:
        self.world, self.gateways, self.managers = world, gateways, managers
        self.random = world.stream("faults")
        self.kinds: Counter[str] = Counter()
        self.cuts: list[Cut] = []
        self.troubled: list[tuple[float, float]] = []
        self.killed_gateways = 0
        self._menu: dict[str, Callable[[], Awaitable[float]]] = {
            "manager killed": self._kill_manager,
            "managers stop in turn": self._stop_managers,
            "manager paused": self._pause_manager,
            "gateway cut off": self._cut_off,
            "gateway hears no answers": self._hears_nothing,
            "answers are slow": self._slow_answers,
            "manager cut from the store": self._cut_from_store,
            "store outage": self._store_outage,
            "gateway killed": self._kill_gateway,
            "gateway paused": self._pause_gateway,
        }

    async def run(self, count: int) -> None:
        for name in self.random.sample(list(self._menu), count):
            self.kinds[name] += 1
            self.world.log_event(f"FAULT {name}")
            began = self.world.seconds
            after_s = await self._menu[name]()
            self.world.log_event(f"over: {name}")
            self.troubled.append((began, self.world.seconds + after_s))
            await asyncio.sleep(2.0)

    def elected(self) -> QuotaManagerProcess | None:
        """The manager that grants."""
        return next((each for each in self.managers if each.running and each.what is not None and each.what.elected), None)

    def _some_gateway(self) -> LimitingGateway:
        return self.random.choice([each for each in self.gateways if each.running])

    async def _for(self, least_s: float, most_s: float) -> None:
        await asyncio.sleep(self.random.uniform(least_s, most_s))

    async def _kill_manager(self) -> float:
        manager = self.elected()
        if manager is not None:
            manager.kill()
        await self._for(1.0, 4.0)
        return ELECTED_S

    async def _stop_managers(self) -> float:
        for _ in range(STOPS):
            manager = self.elected()
            if manager is not None:
                manager.stop()
            await self._for(0.6, 1.0)
        return ELECTED_S

    async def _pause_manager(self) -> float:
        manager = self.elected()
        if manager is not None:
            manager.pause()
            await self._for(0.5, 5.0)
            manager.resume()
        return ELECTED_S

    async def _cut_off(self) -> float:
        return await self._block(both=True)

    async def _hears_nothing(self) -> float:
        return await self._block(both=False)

    async def _block(self, *, both: bool) -> float:
        """Links between one gateway and all managers."""
        gateway, network = self._some_gateway(), self.world.network
        links = [(manager.host, gateway.host) for manager in self.managers]
        links += [(there, here) for here, there in links] if both else []
        began = self.world.seconds
        for link in links:
            network.block(*link)
        await self._for(3.5, 6.0)
        self.cuts.append(Cut(began, self.world.seconds, gateway.node_id))
        for link in links:
            network.unblock(*link)
        return AGAIN_S + 1.0

    async def _slow_answers(self) -> float:
        delay_s = self.random.uniform(0.1, 0.6)
        links = [(manager.host, gateway.host) for manager in self.managers for gateway in self.gateways]
        for link in links:
            self.world.network.slow(*link, delay_s)
        await self._for(1.0, 4.0)
        for link in links:
            self.world.network.slow(*link, 0.0)
        return AGAIN_S

    async def _cut_from_store(self) -> float:
        manager = self.elected()
        if manager is not None:
            links = (manager.host, STORE_HOST), (STORE_HOST, manager.host)
            for link in links:
                self.world.network.block(*link)
            await self._for(1.0, 5.0)
            for link in links:
                self.world.network.unblock(*link)
            self._look_again()
        return ELECTED_S

    async def _store_outage(self) -> float:
        self.world.links.down = True
        await self._for(1.0, 4.0)
        self.world.links.down = False
        self._look_again()
        return ELECTED_S

    def _look_again(self) -> None:
        """Watches of a store that can be reached again go on."""
        for process in (*self.gateways, *self.managers):
            if process.store is not None:
                process.store.link_changed()

    async def _kill_gateway(self) -> float:
        self.killed_gateways += 1
        self._some_gateway().kill()
        await self._for(0.5, 2.0)
        return ELECTED_S

    async def _pause_gateway(self) -> float:
        gateway = self._some_gateway()
        gateway.pause()
        await self._for(0.2, 2.5)
        gateway.resume()
        return AGAIN_S
