"""The instances of one transactional id, one after the other, and some at the same time."""

from tests.simulation.transactions.producers import GENERATIONS, Producer
from tests.simulation.transactions.world import World

INSTANCES_MAX = 40


class Application:
    def __init__(self, world: World, transactional_id: str) -> None:
        self._world = world
        self.transactional_id = transactional_id
        self.newest: Producer
        self._instances: list[Producer] = []
        self._retired = False

    def start(self) -> None:
        """Starts one more instance. The former ones go on, until they are fenced."""
        if self._retired or len(self._instances) >= INSTANCES_MAX:
            return
        world, random = self._world, self._world.random
        self.newest = producer = Producer(world, len(world.clients) + 1, self.transactional_id, random.choice(GENERATIONS))
        self._instances.append(producer)
        world.clients.append(producer)
        world.show(producer)
        world.simulator.loop.create_task(producer.run(), context=producer.context)
        world.later(0.1, self._look, producer)

    def crash(self) -> None:
        self.newest.kill()

    def retire(self, *, crash: bool) -> None:
        """No instance begins anything more; perhaps the newest is gone amid a transaction."""
        self._retired = True
        for producer in self._instances:
            producer.ends = True
        if crash:
            self.newest.kill()

    @property
    def runs(self) -> bool:
        return any(producer.alive and not producer.ended for producer in self._instances)

    @property
    def generations(self) -> list[str]:
        return [producer.generation.name for producer in self._instances]

    def _look(self, producer: Producer) -> None:
        """A process that ended is started again."""
        if producer is not self.newest:
            return
        if producer.ended or not producer.alive:
            self._world.later(self._world.random.choice((0.01, 0.3, 1.5)), self._start_again, producer)
        else:
            self._world.later(0.1, self._look, producer)

    def _start_again(self, producer: Producer) -> None:
        if producer is self.newest:
            self.start()
