"""The world that all simulated processes of one run share."""

from collections.abc import Callable
from random import Random

from libs.cluster.memory.memory_keyspace import Keyspace
from libs.commitlog.cleaner.job import CleanJob
from tests.simulation.cluster.loop import VirtualLoop
from tests.simulation.cluster.network import Network
from tests.simulation.cluster.store import Links
from tests.simulation.sometimes import Sometimes


class World:
    """`story` collects what happens, for people; every name has its own stream of randomness."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.loop = VirtualLoop(self.stream("order"))  # type: ignore[abstract]
        self.network = Network(self.loop, self.stream("network"))
        self.keyspace = Keyspace()
        self.links = Links(self.stream("store"))
        self.sometimes = Sometimes()
        self.broker_configs: tuple[str, ...] = ()
        self.story: list[str] = []
        self.violations: list[str] = []
        self.excused: dict[str, None] = {}
        """Partitions that nobody promised to keep: they live in page caches, and all that held them lost their power."""
        self.before_power_cut: list[Callable[[str], None]] = []
        """Told of the host."""
        self.before_cleaning: list[Callable[[str, CleanJob], None]] = []
        self._started = self.loop.time()

    def stream(self, name: str) -> Random:
        return Random(f"{self.seed}:{name}")

    @property
    def seconds(self) -> float:
        return self.loop.time() - self._started

    def log_event(self, line: str) -> None:
        self.story.append(f"{self.seconds:9.4f}  {line}")

    def violation(self, what: str, *, loss_of: str = "") -> None:
        """Records a violation. The run goes on, so that the story shows what follows from it.

        `loss_of`: the partition that seems to have lost something.
        """
        if loss_of in self.excused:
            self.log_event(f"excused: {what}")
            return
        self.log_event(f"VIOLATION {what}")
        self.violations.append(f"at {self.seconds:.4f}: {what}")
