"""What a replay has written to, and whether it is done: a file beside its plan.

The sink's ledger knows which chunks are written. But a ledger may be deleted or made anew, and a job may name another one. Then a
replay would begin again without this file, and write its rows twice.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from services.pipeline.errors import PipelineError
from services.pipeline.job_file.replay import ReplayJob
from services.pipeline.jobs.replay_plan import damaged
from services.pipeline.spark.files import Files

FILE = "replay-marks.json"


@dataclass(frozen=True)
class ReplayMarks:
    """`ids`: of the ledger and the targets, by name; brokers older than Kafka 2.8 give none."""

    ledger: str
    ids: Mapping[str, str] = field(default_factory=dict)
    is_done: bool = False

    def with_ids(self, ids: Mapping[str, str]) -> "ReplayMarks":
        """Ids that were not known before. Those that were stay."""
        return ReplayMarks(self.ledger, {**ids, **self.ids}, self.is_done)

    def done(self) -> "ReplayMarks":
        return ReplayMarks(self.ledger, self.ids, is_done=True)


def read_marks(job: ReplayJob, files: Files) -> ReplayMarks | None:
    """None: the replay has written nothing yet, or was begun by a version that left no marks. Raises PipelineError."""
    if not files.exists(FILE):
        return None
    try:
        found = json.loads(files.read(FILE))
        return ReplayMarks(str(found["ledger"]), dict(found["ids"]), bool(found["is_done"]))
    except (ValueError, TypeError, KeyError):
        raise damaged(job, files.full(FILE)) from None


def write_marks(files: Files, marks: ReplayMarks) -> None:
    files.create(FILE, json.dumps(asdict(marks)), overwrite=True)


def refuse_other_topics(job: ReplayJob, marks: ReplayMarks, ledger: str, topics: Sequence[str], ids: Mapping[str, str]) -> None:
    """Raises PipelineError unless ledger and targets are those that the replay has written to. `ids`: of those that exist."""
    history = f"the replay of the checkpoint {job.checkpoint} {'is done' if marks.is_done else 'has begun'}"
    advice = "to write all of its rows again, give it a new checkpoint"
    if ledger != marks.ledger:
        raise PipelineError(f"jobs.{job.name}: {history} with the ledger {marks.ledger}, not with {ledger}; {advice}")
    for name in (ledger, *topics):
        kind = "ledger" if name == ledger else "topic"
        if name in marks.ids and ids.get(name) != marks.ids[name]:
            change = f"was made anew, its id is {ids[name]}" if name in ids else "is gone"
            raise PipelineError(
                f"jobs.{job.name}: {history} with the {kind} {name} of id {marks.ids[name]}, which {change}; {advice}"
            )
