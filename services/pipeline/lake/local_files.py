"""Parquet tables of the lake on a local disk, for PyArrow, pandas and others that read Parquet without Spark."""

from dataclasses import dataclass
from pathlib import Path

from services.pipeline.errors import PipelineError
from services.pipeline.lake import commit_log


@dataclass(frozen=True)
class LocalFiles:
    """The files below a folder, which is absolute."""

    folder: str

    def full(self, path: str) -> str:
        return f"{self.folder}/{path}"

    def names(self, path: str) -> list[str]:
        folder = Path(self.full(path))
        return sorted(each.name for each in folder.iterdir() if not each.name.startswith(".")) if folder.is_dir() else []

    def read(self, path: str) -> str:
        return Path(self.full(path)).read_text(encoding="utf-8")


def local_path(path: str) -> Path:
    """The path that a `file:` URI of a job file means, in Hadoop's way: nothing in it is escaped."""
    return Path(path.removeprefix("file:").replace("///", "/", 1)) if path.startswith("file:") else Path(path)


def committed_files(path: str) -> list[str]:
    """The Parquet files that hold all committed batches, once each. `topic` and `date` are in their paths, as Hive has them.

    The folder has more: files of batches that are not committed, and those that compaction and retention have dropped. A file of
    the list may be deleted `keep_removed_minutes` after it left the table. Raises PipelineError if there is no such table, or if
    its files are not as they were committed.
    """
    files = LocalFiles(str(local_path(path).resolve()))
    state = commit_log.read_state(files)
    if state.number < 0:
        raise PipelineError(f"{path} holds no Parquet table of the lake: it has no entries in {commit_log.LOG}")
    present = {name: Path(files.full(name)).stat().st_size for name in state.files if Path(files.full(name)).is_file()}
    if damage := commit_log.damage(state, present):
        raise PipelineError(f"{path} {damage}")
    return [files.full(name) for name in sorted(state.files)]
