"""Files of a lake or a checkpoint, through Hadoop's file systems: whatever path Spark can write to, e.g. `s3a://…`."""

from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from services.pipeline.errors import PipelineError
from services.pipeline.spark.jvm import hadoop_configuration, jvm

_ALREADY_EXISTS = "FileAlreadyExistsException"
_DAMAGED = "ChecksumException"
"""Of local disks, where Hadoop keeps a checksum beside each file."""


@dataclass(frozen=True)
class FileStatus:
    path: str
    """Relative to the folder that was listed."""
    size_bytes: int


class Files:
    """The files below one folder; all paths are relative to it. Raises PipelineError if Hadoop does not understand the folder."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._jvm = jvm(spark)
        self._configuration = hadoop_configuration(spark)
        try:
            root = self._jvm.org.apache.hadoop.fs.Path(folder)
            self._system = root.getFileSystem(self._configuration)
        except (Py4JJavaError, IllegalArgumentException) as error:
            text = error.java_exception.toString() if isinstance(error, Py4JJavaError) else str(error)
            raise PipelineError(f"Spark cannot use the path {folder!r}: {text.strip().splitlines()[0]}") from None
        self.folder: str = self._system.makeQualified(root).toString()

    def full(self, path: str) -> str:
        return f"{self.folder}/{path}"

    def exists(self, path: str) -> bool:
        return bool(self._system.exists(self._path(path)))

    def names(self, path: str) -> list[str]:
        """Names of what lies in a folder, sorted; none if it does not exist. Hidden files are left out."""
        if not self.exists(path):
            return []
        names = (status.getPath().getName() for status in self._system.listStatus(self._path(path)))
        return sorted(name for name in names if not name.startswith("."))

    def has_any(self, path: str, endings: tuple[str, ...]) -> bool:
        """Whether a folder holds something whose name ends so. It stops at the first."""
        if not self.exists(path):
            return False
        statuses = self._system.listStatusIterator(self._path(path))
        while statuses.hasNext():
            name = statuses.next().getPath().getName()
            if name.endswith(endings) and not name.startswith("."):
                return True
        return False

    def below(self, path: str) -> list[FileStatus]:
        """All files below a folder, sorted by path; none if it does not exist."""
        if not self.exists(path):
            return []
        found, prefix = [], len(self.folder) + 1
        statuses = self._system.listFiles(self._path(path), True)
        while statuses.hasNext():
            status = statuses.next()
            found.append(FileStatus(status.getPath().toString()[prefix:], status.getLen()))
        return sorted(found, key=lambda status: status.path)

    def read(self, path: str) -> str:
        """Raises PipelineError if the file is damaged, as far as the file system knows."""
        stream = self._system.open(self._path(path))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        except Py4JJavaError as error:
            if _DAMAGED in error.java_exception.getClass().getName():
                raise PipelineError(f"{self.full(path)} is damaged: its checksum is another one") from None
            raise
        finally:
            stream.close()

    def create(self, path: str, text: str, *, overwrite: bool = False) -> bool:
        """Writes a whole file or none, as Spark writes its checkpoints. False: there is such a file already."""
        if not overwrite and self.exists(path):
            return False
        module = getattr(getattr(self._jvm.org.apache.spark.sql.execution.streaming, "CheckpointFileManager$"), "MODULE$")
        manager = module.create(self._path(path).getParent(), self._configuration)
        manager.mkdirs(self._path(path).getParent())
        stream = manager.createAtomic(self._path(path), overwrite)
        try:
            stream.write(bytearray(text.encode()))
            stream.close()
        except Py4JJavaError as error:
            stream.cancel()
            if _ALREADY_EXISTS in error.java_exception.getClass().getName():
                return False
            raise
        return True

    def move(self, path: str, to: str) -> None:
        """Moves a file to a place where none is; makes the folder."""
        self._system.mkdirs(self._path(to).getParent())
        if not self._system.rename(self._path(path), self._path(to)):
            raise OSError(f"{self.full(path)} could not be moved to {self.full(to)}")

    def delete(self, path: str) -> None:
        """Deletes a file, or a folder with all that is in it, if it is there."""
        self._system.delete(self._path(path), True)

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.full(path) if path else self.folder)
