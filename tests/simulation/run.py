"""One seed: a random workload on a simulated disk, and a power cut at every operation boundary of it."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random

from libs.commitlog.model.config import LogConfig
from tests.simulation.checks import OPENING_ERRORS, Findings, check_disk, same_state
from tests.simulation.disk import SimulatedDisk
from tests.simulation.model import DiskModel
from tests.simulation.node import Node
from tests.simulation.sometimes import Sometimes
from tests.simulation.workload import Workload

CONFIGS = (
    LogConfig(segment_bytes=700, segment_index_bytes=120, index_interval_bytes=100),
    LogConfig(segment_bytes=2500, segment_index_bytes=96, index_interval_bytes=1),
    LogConfig(segment_bytes=9000, segment_index_bytes=512, index_interval_bytes=400),
    LogConfig(segment_bytes=20000, segment_index_bytes=2048, index_interval_bytes=1000),
)
STEPS = 70
QUIET = 0.25
"""The power is cut at so many of the boundaries at which only appends and rounds are at work."""
RECOVERY_OPERATIONS = 30
"""A recovery is cut at one of so many boundaries; if it has fewer, it is not."""


class SeedFailed(AssertionError):
    """`seed` and `crash_point` replay it: `make simulate SEED=…`."""

    def __init__(self, seed: int, crash_point: int, story: list[str], reason: BaseException) -> None:
        super().__init__(f"seed {seed}, crash point {crash_point}: {type(reason).__name__}: {reason}")
        self.seed, self.crash_point, self.story = seed, crash_point, story


class ProcessEnds(BaseException):
    """The end of a process in the middle of its work."""


@dataclass(slots=True)
class Report:
    seed: int
    crash_points: int = 0
    operations: int = 0
    sometimes: Sometimes = field(default_factory=Sometimes)
    digest: str = ""
    """Of everything that every recovery found: two runs of a seed that differ anywhere have different ones."""


class Run:
    """Runs once. `story` collects what happened, for people."""

    def __init__(self, seed: int, *, steps: int = STEPS, story: list[str] | None = None) -> None:
        self.seed, self.steps, self.story = seed, steps, story
        self.report = Report(seed)
        self.boundary = 0
        self._hash = hashlib.sha256()
        random = self.stream("shape")
        self.config = random.choice(CONFIGS)
        self.directory_id = random.randbytes(16)
        self.model = DiskModel(self.directory_id)
        self.disk = SimulatedDisk(self.report.sometimes, page_size=random.choice((512, 4096)), story=story)
        self.disk.random = self.stream("disk")
        self.faulty = random.random() < 0.4
        self.workload: Workload | None = None

    def stream(self, name: str) -> Random:
        return Random(f"{self.seed}:{name}")

    def run(self) -> Report:
        """Raises SeedFailed."""
        try:
            self._run()
        except (AssertionError, *OPENING_ERRORS, LookupError, ValueError, TypeError) as reason:
            raise SeedFailed(self.seed, self.boundary, self.story or [], reason) from reason
        self.report.operations += self.disk.operations
        self.report.digest = self._hash.hexdigest()
        return self.report

    def _run(self) -> None:
        self.disk.make_directories("/logs")
        self.disk.fsync_directory("/")
        node = Node(self.disk, self.config, self.directory_id)
        random, names = self.stream("work"), self.stream("names")
        self.workload = Workload(node, self.model, random, names, faulty=self.faulty, story=self.story)
        self.disk.before = self._before
        for _ in range(self.steps):
            restart = self._until_it_ends(self.workload.step)
            while restart:
                restart = self._until_it_ends(partial(self._restart, restart))

    @staticmethod
    def _until_it_ends(work: Callable[[], str | None]) -> str | None:
        try:
            return work()
        except ProcessEnds as end:
            return str(end)

    # --- crashes that are imagined: the workload goes on as if nothing had been

    def _before(self, operation: str) -> None:
        assert self.workload is not None
        self.boundary += 1
        self._note_what_is_cut()
        random = self.stream(f"crash:{self.boundary}")
        if self._is_eventful() or random.random() < QUIET:
            self._imagine(self.disk, random, f"the power goes before: {operation}", None)
        if random.random() < 0.004:
            self.disk.dead = ProcessEnds(random.choice(("kill", "power cut")))
            raise self.disk.dead
        self.workload.meanwhile()

    def _is_eventful(self) -> bool:
        assert self.workload is not None
        node = self.workload.node
        stages = any(one.cutting is not None or one.stage in ("creating", "deleting") for one in self.model.partitions.values())
        return bool(node.working) or node.swapping or stages or self.workload.closing

    def _imagine(self, disk: SimulatedDisk, random: Random, why: str, earlier: Findings | None) -> None:
        """Cuts the power, boots, checks; and cuts it again during that boot, or boots twice."""
        mark = len(self.story) if self.story is not None else 0
        if self.story is not None:
            self.story.append(f"  * crash point {self.boundary}: {why}")
        killed = earlier is None and random.random() < 0.15 and not self._page_cache_lies()
        image = disk.as_left_by_a_kill() if killed else disk.crashed(random, self.story)
        self.report.sometimes("killed, and the power cut after the recovery", killed)
        self.report.crash_points += 1
        again = random.randrange(RECOVERY_OPERATIONS) if earlier is None and random.random() < 0.5 else None
        images: list[SimulatedDisk] = []
        if again is not None:
            image.before = self._cut_after(image, again, images)
        node = Node(image, self.config, self.directory_id, random if random.random() < 0.15 else None, self.model.deleted())
        image.before = None
        self.report.operations += image.operations
        found = check_disk(node, self.model, random, earlier)
        self._digest(node)
        self._note_what_was_found(node, found)
        draw = random.random()
        if earlier is None and (draw < 0.25 or killed):
            self._imagine(image, random, "and once more, right after that recovery", found)
        elif draw < 0.5:
            image.killed()
            same_state(node, Node(image, self.config, self.directory_id, None, self.model.deleted()))
        for second in images:
            self.report.sometimes("crash during a recovery")
            self._recover_again(second, random)
        if self.story is not None:
            del self.story[mark:]

    def _page_cache_lies(self) -> bool:
        """Whether the page cache holds data that the disk lacks, after a failed sync. A new process would recover them."""
        return self.disk.lies

    def _cut_after(self, image: SimulatedDisk, operations: int, images: list[SimulatedDisk]) -> "Countdown":
        return Countdown(image, operations, images, self.stream(f"crash:{self.boundary}:recovery"), self.story)

    def _recover_again(self, image: SimulatedDisk, random: Random) -> None:
        self.report.crash_points += 1
        node = Node(image, self.config, self.directory_id, None, self.model.deleted())
        clean, self.model.clean = self.model.clean, None
        try:
            check_disk(node, self.model, random)
        finally:
            self.model.clean = clean
        self._digest(node)

    # --- crashes that happen

    def _restart(self, how: str) -> None:
        """Ends the process, and goes on with what the next one finds."""
        assert self.workload is not None
        node, disk, model = self.workload.node, self.disk, self.model
        if self.story is not None:
            self.story.append(f"= {how}")
        disk.before = None
        power_went = how == "power cut" or disk.lies
        if power_went:
            self.report.operations += disk.operations
            disk = disk.crashed(self.stream(f"restart:{self.boundary}"), self.story)
        else:
            disk.killed()
        self.disk = disk
        self.workload.lose_a_directory(disk)
        disk.before = self._before_in_recovery
        was_clean = model.clean
        model.clean = None if was_clean is not False else False
        children = self.stream(f"children:{self.boundary}")
        node = Node(disk, self.config, self.directory_id, children if children.random() < 0.3 else None, model.deleted())
        disk.before = None
        model.clean = was_clean
        found = check_disk(node, model, self.stream(f"found:{self.boundary}"))
        self._digest(node)
        model.clean = False
        self.report.sometimes("opened clean", node.directory.was_clean)
        for topic_id in list(model.partitions):
            partition = model.partitions[topic_id]
            if topic_id not in found:
                is_there = any(one.topic_id == topic_id for one in node.listed)
                partition.stage = "deleting" if is_there else "gone"
                continue
            held = found[topic_id]
            partition = model.partitions[topic_id] = held.partition
            log = node.logs[topic_id]
            partition.stage, partition.cutting = "present", None
            partition.content = held.content
            partition.others.clear()
            partition.cut(held.end)
            partition.start_seen = partition.start_said = held.start
            partition.durable = max(min(partition.durable, partition.end), log.durable_offset)
            if power_went:  # else the page cache still holds how what was refused came and went
                partition.refused.clear()
        disk.before = self._before
        self.workload.begin(node)

    def _before_in_recovery(self, operation: str) -> None:
        self.boundary += 1
        self.report.sometimes("crash during a recovery")
        random = self.stream(f"crash:{self.boundary}")
        clean = self.model.clean
        self._imagine(self.disk, random, f"the power goes in a recovery before: {operation}", None)
        self.model.clean = clean

    # --- notes

    def _digest(self, node: Node) -> None:
        for topic_id, log in node.logs.items():
            self._hash.update(
                repr((topic_id, log.log_end_offset, log.recovery_point, log.scanned_bytes, log.truncated_bytes)).encode()
            )

    def _note_what_is_cut(self) -> None:
        assert self.workload is not None
        sometimes, node = self.report.sometimes, self.workload.node
        sometimes("crash during a sync round", node.running)
        sometimes(f"crash while {node.working}", bool(node.working))
        sometimes("crash between the names of a swap", node.swapping)
        sometimes("log failed until it is opened again", bool(node.failed))
        sometimes("log directory retired", node.retired)
        sometimes("crash during a clean close", self.workload.closing)
        for partition in self.model.partitions.values():
            sometimes("crash during a truncation", partition.cutting is not None)
            sometimes("crash during a partition's creation", partition.stage == "creating")
            sometimes("crash during a partition's deletion", partition.stage == "deleting")
            sometimes("crash during an append that rolled", bool(partition.staged) and node.rolled(partition))

    def _note_what_was_found(self, node: Node, found: Findings) -> None:
        sometimes = self.report.sometimes
        for topic_id, held in found.items():
            partition, log, end = held.partition, node.logs[topic_id], held.end
            sometimes("torn tail cut", log.truncated_bytes > 0)
            sometimes("resume point used", log.recovery_point > 0)
            sometimes("log read from its beginning", log.recovery_point == 0 and log.scanned_bytes > 0)
            sometimes("unsynced records survived", end > partition.durable)
            sometimes("unsynced records were lost", end < partition.end)
            before = self.workload.node.logs.get(topic_id) if self.workload is not None else None
            if before is None:
                continue
            sometimes("whole segments cut", before.segments[-1].base_offset > log.segments[-1].base_offset)
            sometimes(
                "segments before the start went at an opening", before.segments[0].base_offset < log.segments[0].base_offset
            )
            epochs = before.epochs.entries()
            sometimes("epoch without records forgotten", bool(epochs) and epochs[-1][1] >= end)


class Countdown:
    """Takes one picture of a recovering disk, after so many operations."""

    def __init__(
        self, image: SimulatedDisk, operations: int, images: list[SimulatedDisk], random: Random, story: list[str] | None
    ) -> None:
        self.image, self.left, self.images, self.random, self.story = image, operations, images, random, story

    def __call__(self, operation: str) -> None:
        if self.left == 0:
            if self.story is not None:
                self.story.append(f"  * and goes again in that recovery before: {operation}")
            self.images.append(self.image.crashed(self.random, self.story))
        self.left -= 1
