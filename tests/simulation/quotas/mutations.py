"""One seed of `controller_mutation_rate`: clients that want more partitions than they may have, while controllers fail over.

Their requests only validate. A controller charges them all the same, and nothing is made.
"""

import asyncio
from collections import Counter
from itertools import count
from typing import Final

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.store import Put
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages import create_topics
from tests.simulation.cluster.kafka_client import Disconnected, Link, call
from tests.simulation.cluster.network import SimulatedTransport
from tests.simulation.cluster.processes import KAFKA_PORT, ControllerProcess, GatewayProcess, Process, StorageProcess
from tests.simulation.cluster.run_phases import RunPhases
from tests.simulation.cluster.service_logs import ServiceLogs
from tests.simulation.cluster.world import World
from tests.simulation.quotas.processes import set_quota
from tests.simulation.quotas.promise import Admitted
from tests.simulation.quotas.report import Report, report_of

STRICT_VERSION: Final = 7
CLIENT_ID, QUOTA = "maker", "controller_mutation_rate"
CLIENTS: Final = 3
BURST_S: Final = 11.0
"""Written down here anew, as in `promise.py`."""
ANSWER_S_MAX: Final = 40.0
BIRTH_S, LOAD_S, PAID_S = 20.0, 15.0, 30.0
RETRY_S: Final = 0.1
USED_MIN: Final = 0.9


class MutationsRun(RunPhases):
    """Two controllers, two gateways, and a storage node that has no partition."""

    kind = "mutations"
    starts_again_every_s = 0.25

    def __init__(self, seed: int, *, verbose: bool = False) -> None:
        self.world = world = World(seed)
        self.random = random = world.stream("plan")
        self.controllers = [ControllerProcess(world, number) for number in (1, 2)]
        self.gateways = [GatewayProcess(world, number) for number in (1, 2)]
        self.processes: list[Process] = [StorageProcess(world, 1), *self.controllers, *self.gateways]
        self.logs = ServiceLogs(world, verbose=verbose)
        self.rate = float(random.randint(4, 12))
        self.partitions = random.randint(2, 20)
        """What each topic costs."""
        self.failovers = random.choice((0, 1, 1, 2))
        self.admitted = Admitted()
        self.answers = self.throttled = 0
        self._stopping = False
        self._names = count()

    def run(self, *, until_caught: bool = False) -> Report:
        """`until_caught`: it ends with the first violation."""
        self.play(until_caught=until_caught)
        faults = Counter({"controller killed": self.failovers} if self.failovers else {})
        return report_of(self.world, self.logs, self.kind, self.answers, self.throttled, faults)

    async def _run(self) -> None:
        world, loop = self.world, asyncio.get_running_loop()
        world.keyspace.write([Put(keys.CLUSTER_ID, encode("simulated"))])
        set_quota(world, CLIENT_ID, QUOTA, self.rate)
        for process in self.processes:
            process.start()
        await self._until(self._unready, BIRTH_S, "the processes are not ready")
        began = world.seconds
        keepers = [loop.create_task(self._supervise()), loop.create_task(self._watch(began))]
        working = [loop.create_task(self._client(number)) for number in range(CLIENTS)]
        for _ in range(self.failovers):
            await asyncio.sleep(self.random.uniform(1.0, 5.0))
            self._kill_elected()
        await asyncio.sleep(max(0.0, began + LOAD_S - world.seconds))
        self._stopping = True
        self._judge(began)
        await self._ended(working, "a client")
        for keeper in keepers:
            keeper.cancel()

    def _kill_elected(self) -> None:
        elected = next((each for each in self.controllers if each.running and each.what is not None and each.what.elected), None)
        if elected is not None:
            self.world.log_event(f"FAULT {elected.host} is killed")
            elected.kill()

    def _unready(self) -> str:
        for process in self.processes:
            ready, reason = process.what.ready() if process.what is not None else (False, "it does not run")
            if not ready:
                return f"{process.host}: {reason}"
        return ""

    async def _watch(self, began: float) -> None:
        """The limit holds at any time."""
        while not self.world.violations:
            await asyncio.sleep(0.2)
            self._check_excess(began)

    def _check_excess(self, began: float) -> None:
        excess = self.admitted.excess(self.rate, began, self.world.seconds)
        allowed = (1 + self.failovers) * (BURST_S * self.rate + self.partitions)
        if excess > allowed:
            text = f"{CLIENT_ID} exceeds {self.rate} a second by {excess:.0f} partitions, and {allowed:.0f} are allowed"
            self.world.violation(text)

    def _judge(self, began: float) -> None:
        world, rate, now = self.world, self.rate, self.world.seconds
        self._check_excess(began)
        used, wanted = self.admitted.between(began, now), rate * (BURST_S + USED_MIN * (now - began)) - self.partitions
        if not self.failovers and used < wanted:
            world.violation(f"{CLIENT_ID} may make {used} partitions of {wanted:.0f} in {now - began:.0f} s")

    async def _client(self, number: int) -> None:
        transport = SimulatedTransport(self.world.network, f"{CLIENT_ID}-{number}", None)
        while not self._stopping:
            gateway = self.random.choice(self.gateways)
            try:
                link = await Link.connect(transport, (gateway.host, KAFKA_PORT + 1))
                link.client_id = CLIENT_ID
                try:
                    await self._ask_on(link, gateway.node_id)
                finally:
                    link.close()
            except Disconnected:
                await asyncio.sleep(RETRY_S)

    async def _ask_on(self, link: Link, gateway: int) -> None:
        """Some requests, as fast as they are answered. Raises Disconnected."""
        for _ in range(self.random.randint(1, 20)):
            if self._stopping:
                return
            topic = create_topics.CreatableTopic(f"t-{next(self._names)}", self.partitions, 1)
            answer = await call(
                link,
                ApiKey.CREATE_TOPICS,
                STRICT_VERSION,
                create_topics.write_request,
                create_topics.CreateTopicsRequest([topic], 5_000, validate_only=True),
                create_topics.read_response,
                ANSWER_S_MAX,
            )
            self.answers += 1
            error = answer.topics[0].error_code
            if not error:
                self.admitted.note(self.world.seconds, self.partitions, gateway)
            elif error == ErrorCode.THROTTLING_QUOTA_EXCEEDED:
                self.throttled += 1
                if not answer.throttle_time_ms:
                    self.world.violation(f"{CLIENT_ID} is refused and not told to wait")
            else:
                await asyncio.sleep(RETRY_S)
