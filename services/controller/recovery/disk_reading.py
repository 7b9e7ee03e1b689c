"""Reads what a storage node holds from its data directory and its log directories, and changes nothing there."""

from collections.abc import Iterator, Sequence

from libs.cluster.saved_metadata import IMAGE_FILE
from libs.commitlog.checkpoints.leader_epochs import FILE_NAME as EPOCHS
from libs.commitlog.checkpoints.leader_epochs import NO_EPOCH, LeaderEpochs
from libs.commitlog.files.durable_files import read_file
from libs.commitlog.files.file_names import LOG, SNAPSHOT, offsets_of, path_of
from libs.commitlog.files.filesystem import FileSystem
from libs.commitlog.inspection.locks import lock_holder
from libs.commitlog.model.errors import DirectoryDamaged
from libs.commitlog.partition_log.directory import (
    find_deleted,
    find_directory_id,
    find_partitions,
    find_properties,
    is_retired,
    read_moves,
)
from libs.commitlog.producers.producer_snapshot import parse_snapshot
from services.controller.core.recovery.node_holdings import UNKNOWN_TOPIC, DeletedPartition, HeldPartition, NodeHoldings
from services.controller.recovery.store_contents import RecoveryRefused

METADATA = "partition.metadata"


class DiskReading:
    """The reading of one node's disks."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._problems: list[str] = []
        self._highest_producer_id = -1
        self._highest_owner_epoch = -1

    def read(self, data_dir: str, log_dirs: Sequence[str]) -> NodeHoldings:
        """Raises RecoveryRefused where it cannot be told whose the directories are, or a process uses them."""
        owners: set[tuple[int, str]] = set()
        directories: list[str] = []
        partitions: list[HeldPartition] = []
        deleted: list[DeletedPartition] = []
        for path in log_dirs:
            try:
                directory_id, owner = self._identity(path)
                held = list(self._partitions(path, directory_id))
                gone = sorted(find_deleted(self._fs, path))
            except (OSError, DirectoryDamaged) as error:
                self._problems.append(f"log directory {path} cannot be read: {error}")
                continue
            owners.add(owner)
            directories.append(directory_id)
            partitions += held
            deleted += [DeletedPartition(topic_id.hex(), index) for topic_id, index in gone]
        if len(owners) > 1:
            raise RecoveryRefused(f"the log directories beside {data_dir} are not of one node: {sorted(owners)}")
        if not owners:
            raise RecoveryRefused(f"no log directory of {data_dir} can be read: {'; '.join(self._problems) or 'none is there'}")
        node_id, cluster_id = owners.pop()
        saved_image = self._saved_image(data_dir)
        return NodeHoldings(
            node_id,
            cluster_id,
            tuple(directories),
            tuple(partitions),
            tuple(deleted),
            self._highest_producer_id,
            saved_image,
            tuple(self._problems),
            self._highest_owner_epoch,
        )

    def _identity(self, path: str) -> tuple[str, tuple[int, str]]:
        """The directory's id, and whose it is. Raises DirectoryDamaged, OSError, RecoveryRefused."""
        if (pid := lock_holder(path)) is not None:
            raise RecoveryRefused(f"process {pid} uses {path}: stop all processes of Penstock first")
        if is_retired(self._fs, path):
            raise DirectoryDamaged("it was retired after its disk failed")
        properties = find_properties(self._fs, path)
        directory_id = find_directory_id(self._fs, path)
        node_id, cluster_id = properties.get("node.id", ""), properties.get("cluster.id", "")
        if directory_id is None or not node_id.isdigit() or not cluster_id:
            raise DirectoryDamaged("its meta.properties does not say whose it is")
        return directory_id.hex(), (int(node_id), cluster_id)

    def _partitions(self, path: str, directory_id: str) -> Iterator[HeldPartition]:
        """Raises OSError."""
        found = {entry.path: entry.topic_id.hex() for entry in find_partitions(self._fs, path)}
        for name in sorted(self._fs.list_directory(path)):
            topic, dash, index = name.rpartition("-")
            if not (dash and topic and index.isascii() and index.isdigit()):
                continue
            at = f"{path}/{name}"
            try:
                names = self._fs.list_directory(at)
            except NotADirectoryError:
                continue
            if at not in found and not offsets_of(names, LOG):
                continue
            if at not in found:
                self._problems.append(f"{at} has no sound {METADATA}: taken for the topic of that name")
            written_ms = self._fs.modified_ms(f"{at}/{METADATA}") if METADATA in names else 0
            epoch, moves = self._latest_epoch(at), read_moves(self._fs, at)
            self._note_producers(at, names)
            yield HeldPartition(topic, int(index), found.get(at, UNKNOWN_TOPIC), directory_id, epoch, moves, written_ms)

    def _latest_epoch(self, path: str) -> int:
        file = f"{path}/{EPOCHS}"
        try:
            content = read_file(self._fs, file)
            return LeaderEpochs.parse(content, file).latest if content is not None else NO_EPOCH
        except (DirectoryDamaged, OSError) as error:
            self._problems.append(f"{error}; the survey of the logs tells their epochs")
            return NO_EPOCH

    def _note_producers(self, path: str, names: Sequence[str]) -> None:
        """Takes the highest producer id and owner epoch of the newest snapshot. Newer ones are few beside those that are
        skipped."""
        offsets = offsets_of(names, SNAPSHOT)
        if not offsets:
            return
        file = path_of(path, max(offsets), SNAPSHOT)
        try:
            content = read_file(self._fs, file)
            producers = parse_snapshot(content, file) if content is not None else {}
        except (DirectoryDamaged, OSError) as error:
            self._problems.append(f"{error}; its producer ids are not known")
            return
        self._highest_producer_id = max([self._highest_producer_id, *producers])
        self._highest_owner_epoch = max([self._highest_owner_epoch, *[each.coordinator_epoch for each in producers.values()]])

    def _saved_image(self, data_dir: str) -> str:
        file = f"{data_dir}/{IMAGE_FILE}"
        try:
            content = read_file(self._fs, file)
        except OSError as error:
            self._problems.append(f"{file} cannot be read: {error}")
            return ""
        return content.decode(errors="replace") if content is not None else ""
