"""What a checkout's hunts have run so far: the next one begins where the last one ended."""

import json
import os
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.simulation.hunt.seed_runs import Job, Outcome


@dataclass(slots=True)
class Progress:
    """Kept in `file` after each change, which survives a kill."""

    file: Path
    next_seed: dict[str, int] = field(default_factory=dict)
    cpu_s: dict[str, float] = field(default_factory=dict)

    @classmethod
    def load(cls, file: Path) -> "Progress":
        return cls(file, **json.loads(file.read_text(encoding="utf-8"))) if file.exists() else cls(file)

    def begin(self, kinds: Iterable[str]) -> None:
        """A kind that is new begins with a seed that no other checkout had. It gets no more than its share from now on."""
        fresh = int(time.time()) % 100_000_000
        least = min(self.cpu_s.values(), default=0.0)
        for kind in kinds:
            self.next_seed.setdefault(kind, fresh)
            self.cpu_s.setdefault(kind, least)

    def take(self, kind: str, together: int) -> Job:
        """The next seeds of a kind. They count as run from now on."""
        first = self.next_seed[kind]
        self.next_seed[kind] = first + together
        self._save()
        return Job(kind, range(first, first + together))

    def add(self, outcome: Outcome) -> None:
        self.cpu_s[outcome.kind] += outcome.cpu_s
        self._save()

    def _save(self) -> None:
        written = asdict(self)
        del written["file"]
        self.file.parent.mkdir(parents=True, exist_ok=True)
        beside = self.file.with_suffix(".tmp")
        beside.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
        os.replace(beside, self.file)
