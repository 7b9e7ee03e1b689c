"""One seed of client quotas: uneven load that moves between gateways, quotas that change, and faults."""

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from typing import Final

from tests.simulation.cluster.processes import Process
from tests.simulation.cluster.run_phases import RunPhases
from tests.simulation.cluster.service_logs import ServiceLogs
from tests.simulation.cluster.world import World
from tests.simulation.quotas.clients import Client, Crowd
from tests.simulation.quotas.faults import Faults
from tests.simulation.quotas.mutations import MutationsRun
from tests.simulation.quotas.processes import LimitingGateway, QuotaManagerProcess, StorageStandIn, set_quota
from tests.simulation.quotas.promise import Limited, Promise
from tests.simulation.quotas.report import Report, report_of

PRODUCER, CONSUMER, WORKER = "producer", "consumer", "worker"
QUOTA_OF: Final = {PRODUCER: "producer_byte_rate", CONSUMER: "consumer_byte_rate", WORKER: "request_percentage"}
RATES = 200_000, 600_000
PERCENTS = 5, 15
US_IN_PERCENT: Final = 10_000
"""Microseconds of work a second."""
BIRTH_S = 20.0
SETTLED_S = 1.5
"""After a change of quotas or the birth: gateways have heard of it, and have asked."""
LOAD_S = 12.0
QUIET_S = 2.5
"""So long is the load after the last change and fault, at least."""
WINDOW_S = 2.0
PAID_S = 30.0
"""All debts are paid in this time, once nobody sends any more."""
SERVED_S = 12.0
MUTATIONS_EVERY: Final = 8
FAULTLESS, FAULTY, CHANGED = "faultless", "faulty", "changed"


class QuotasRun(RunPhases):
    starts_again_every_s = 0.25

    def __init__(self, seed: int, *, verbose: bool = False) -> None:
        self.world = world = World(seed)
        self.random = random = world.stream("plan")
        self.kind = (FAULTLESS, FAULTY, FAULTY, CHANGED)[seed % 4]
        count = random.choice((2, 2, 3))
        self.gateways = [LimitingGateway(world, number) for number in range(1, count + 1)]
        self.managers = [QuotaManagerProcess(world, number) for number in (1, 2)]
        self.processes: list[Process] = [*self.gateways, *self.managers]
        self.logs = ServiceLogs(world, verbose=verbose)
        sizes = (1_000, 2_000) if random.random() < 0.2 else (3_000, 8_000)
        self.storage = StorageStandIn(world, [PRODUCER, CONSUMER], sizes)
        self.crowds = {name: Crowd(name, index, sizes) for index, name in enumerate(QUOTA_OF)}
        self.clients = self._clients(crowded=sizes[1] <= 2_000)
        self.rates = {name: float(random.randint(*(PERCENTS if name == WORKER else RATES))) for name in QUOTA_OF}
        self.moves_every_s = random.choice((0.7, 1.5, 4.0))
        self.together = random.random() < 0.4
        """All clients move to the same gateway."""
        self.faults = Faults(world, self.gateways, self.managers)
        self.limited: dict[str, list[Limited]] = {name: [] for name in QUOTA_OF}
        self.known_at: dict[str, float] = {}
        """When all gateways surely know the present limit."""

    def _clients(self, *, crowded: bool) -> list[Client]:
        places, crowds = [gateway.host for gateway in self.gateways], self.crowds
        producer, consumer = crowds[PRODUCER], crowds[CONSUMER]

        def client(number: int, crowd: Crowd, **how: object) -> Client:
            return Client(self.world, f"{crowd.client_id}-{number}", crowd, places, **how)  # type: ignore[arg-type]

        if crowded:
            return [client(number, producer) for number in range(100)]
        pause_s = self.random.uniform(0.2, 0.5)
        return [
            *(client(number, producer, window=number % 3 + 1) for number in range(5)),
            *(client(number, producer, reconnects=True) for number in range(5, 7)),
            *(client(number, producer, hangs_up_every_s=pause_s) for number in range(7, 12)),
            *(client(number, consumer, fetches=True) for number in range(4)),
            *(client(number, crowds[WORKER], works=True, window=number % 2 + 1) for number in range(4)),
        ]

    def run(self, *, until_caught: bool = False) -> Report:
        """`until_caught`: it ends with the first violation."""
        self.play(until_caught=until_caught)
        crowds = self.crowds.values()
        answers, throttled = sum(crowd.answers for crowd in crowds), sum(crowd.throttled for crowd in crowds)
        return report_of(self.world, self.logs, self.kind, answers, throttled, self.faults.kinds)

    # --- the phases

    async def _run(self) -> None:
        world, loop = self.world, asyncio.get_running_loop()
        await self.storage.start()
        for name, rate in self.rates.items():
            set_quota(world, name, QUOTA_OF[name], rate)
        for process in self.processes:
            process.start()
        await self._until(self._unready, BIRTH_S, "the processes are not ready")
        world.log_event("clients begin")
        began = world.seconds
        self.known_at = dict.fromkeys(QUOTA_OF, began + SETTLED_S)
        keepers = [loop.create_task(work()) for work in (self._supervise, self._move, self._watch)]
        working = [loop.create_task(client.run()) for client in self.clients]
        plan: Callable[[], Awaitable[None]] = {FAULTLESS: self._nothing, FAULTY: self._trouble, CHANGED: self._change}[self.kind]
        await asyncio.sleep(SETTLED_S)
        await plan()
        await asyncio.sleep(max(QUIET_S, began + LOAD_S - world.seconds))
        for crowd in self.crowds.values():
            crowd.stopping = True
        for keeper in keepers:
            keeper.cancel()
        self._judge()
        await asyncio.wait(working, timeout=PAID_S)
        self._check_ends(working)
        await self._until(self._still_muted, PAID_S, "debts are not paid")
        await self._until(self._unready, BIRTH_S, "the processes are not ready")
        await self._serve_on()
        self._check_stored()

    async def _nothing(self) -> None:
        pass

    async def _trouble(self) -> None:
        await self.faults.run(self.random.choice((1, 2)))

    async def _change(self) -> None:
        """Another limit, then none, and then one again."""
        world, name = self.world, self.random.choice(list(QUOTA_OF))
        await asyncio.sleep(2.5)
        self._limit_ends(name)
        self.rates[name] *= self.random.choice((0.3, 2.0))
        self._set(name)
        await asyncio.sleep(4.5)
        self._limit_ends(name)
        set_quota(world, name, QUOTA_OF[name], None)
        await asyncio.sleep(0.5)
        if self._muted_for(name):
            world.violation(f"{name} has no limit any more, and is muted")
        self._set(name)

    def _set(self, name: str) -> None:
        set_quota(self.world, name, QUOTA_OF[name], self.rates[name])
        self.known_at[name] = self.world.seconds + SETTLED_S

    def _limit_ends(self, name: str) -> None:
        self.limited[name].append(self._limited(name))

    def _limited(self, name: str) -> Limited:
        """The time of the present limit, until now."""
        rate = self.rates[name] * (US_IN_PERCENT if name == WORKER else 1)
        return Limited(self.known_at[name], self.world.seconds, rate)

    # --- judgement

    def _promises(self) -> list[Promise]:
        """One for each entity that has clients, up to now."""
        found = []
        admitted = {
            PRODUCER: self.storage.produced[PRODUCER],
            CONSUMER: self.storage.fetched[CONSUMER],
            WORKER: self.crowds[WORKER].worked,
        }
        for name, crowd in self.crowds.items():
            in_flight = sum(client.in_flight for client in self.clients if client.crowd is crowd)
            if in_flight:
                limited = [*self.limited[name], self._limited(name)]
                gateways, faults = len(self.gateways), self.faults
                killed, forgiven = faults.killed_gateways, in_flight if name == WORKER else 0.0
                promise = Promise(
                    name, admitted[name], gateways, in_flight, limited, faults.cuts, faults.troubled, forgiven, killed
                )
                found.append(promise)
        return found

    async def _watch(self) -> None:
        """The limits hold in each window, too."""
        while not self.world.violations:
            await asyncio.sleep(WINDOW_S)
            for violation in [each for promise in self._promises() for each in promise.exceeded()]:
                self.world.violation(violation)

    def _judge(self) -> None:
        for violation in [each for promise in self._promises() for each in promise.broken()]:
            self.world.violation(violation)

    def _check_ends(self, working: "list[asyncio.Task[None]]") -> None:
        for client, task in zip(self.clients, working, strict=True):
            if not task.done():
                self.world.violation(f"{client.name} is not answered")
            elif (error := task.exception()) is not None:
                self.world.violation(f"{client.name} cannot go on: {''.join(traceback.format_exception(error)).strip()}")

    async def _serve_on(self) -> None:
        """Each client is served once more: whoever was muted is read again."""
        self.world.log_event("all debts are paid")
        asked = [asyncio.get_running_loop().create_task(client.ask_once()) for client in self.clients]
        await asyncio.wait(asked, timeout=SERVED_S)
        for client, task in zip(self.clients, asked, strict=True):
            if not task.done() or task.exception() is not None:
                self.world.violation(f"{client.name} is not served any more: {task.exception() if task.done() else 'no answer'}")

    def _check_stored(self) -> None:
        for crowd in self.crowds.values():
            if lost := crowd.acknowledged - self.storage.stored:
                self.world.violation(f"{len(lost)} acknowledged batches of {crowd.client_id} are lost")

    # --- conditions

    def _unready(self) -> str:
        for process in self.processes:
            ready, reason = process.what.ready() if process.what is not None else (False, "it does not run")
            if not ready:
                return f"{process.host}: {reason}"
        return "" if self.faults.elected() is not None else "nobody is elected"

    def _still_muted(self) -> str:
        return next((f"{name} is muted" for name in QUOTA_OF if self._muted_for(name)), "")

    def _muted_for(self, name: str) -> bool:
        return any(
            connection.is_muted and connection.client_id == name
            for gateway in self.gateways
            if gateway.what is not None
            for connection in gateway.what.connections
        )

    # --- what goes on beside

    async def _move(self) -> None:
        """Clients go to other gateways, most of them to one."""
        while True:
            crowded, chosen = self.random.random(), self.random.randrange(len(self.gateways))
            for client in self.clients:
                if self.together or self.random.random() < crowded:
                    client.place = chosen
                else:
                    client.place = self.random.randrange(len(self.gateways))
            await asyncio.sleep(self.moves_every_s)


def run_one(seed: int, *, verbose: bool = False, until_caught: bool = False) -> Report:
    """`verbose`: the story has also what the services log of their normal work. `until_caught`: the first violation ends it.

    Every eighth seed is one of changes of topics.
    """
    is_of_topics = seed % MUTATIONS_EVERY == MUTATIONS_EVERY - 1
    run = MutationsRun(seed, verbose=verbose) if is_of_topics else QuotasRun(seed, verbose=verbose)
    try:
        return run.run(until_caught=until_caught)
    finally:
        run.discard()
