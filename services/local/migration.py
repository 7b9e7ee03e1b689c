"""A local cluster that takes over a stopped Kafka's log directories, or gives its own to Kafka.

The work needs the libraries, so `python -m services.controller.migration` does it.
"""

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from services.local.cluster import Cluster
from services.local.errors import LauncherError
from services.local.recovery import NEXT, backup, fill_new_etcd, refuse_if_running, run_module, stop_etcd
from services.local.run_directory import LOG_DIRS, RunDirectory, entries_of

MODULE = "services.controller.migration"


class KafkaDirectories:
    """The log directories of stopped Kafka brokers, as a launcher was given them."""

    def __init__(self, sources: Sequence[str], *, python: Path, root: Path) -> None:
        self._python, self._root = python, root
        self._sources = [str(Path(source).absolute()) if "," not in source else source for source in sources]
        found = json.loads(self._run("nodes", *self._sources))
        self.by_node: dict[int, list[str]] = {int(node_id): paths for node_id, paths in found.items()}
        if sorted(self.by_node) != list(range(1, len(self.by_node) + 1)):
            listed = ", ".join(map(str, sorted(self.by_node)))
            raise LauncherError(
                f"these are brokers {listed}: under `make`, storage nodes have the ids from 1 on without a gap. "
                "Give all brokers; those with other ids come over by MirrorMaker 2 (docs/use/coming-from-kafka.md)"
            )

    def dry_run(self) -> str:
        """What would be taken over."""
        return self._run("from-kafka", "--dry-run", *self._sources)

    def fill(self, etcd: str) -> str:
        """Fills the metadata store at `etcd`, and changes nothing of Kafka's. Returns what was taken over."""
        return self._run("from-kafka", "--etcd", etcd, "--keep-names", *self._sources)

    def set_aside(self) -> str:
        """Sets Kafka's own metadata aside. Returns the new names, "" if nothing was left to rename. May be repeated."""
        return self._run("set-aside", *self._sources)

    def are_served_by(self, run: RunDirectory) -> bool:
        """Whether RUN has a cluster with these directories: an earlier take-over filled its metadata store."""
        given = {f"storage-{node_id}": ",".join(paths) for node_id, paths in self.by_node.items()}
        if run.is_taking_over() or not run.holds_cluster():
            return False
        return all(run.place_of(name, {}).get(LOG_DIRS) == paths for name, paths in given.items())

    def _run(self, *arguments: str) -> str:
        return run_module(MODULE, arguments, python=self._python, root=self._root)


def refuse_cluster(run: RunDirectory) -> None:
    """Raises LauncherError where RUN has a cluster: its metadata would be lost."""
    if run.is_taking_over():
        return
    if run.holds_cluster() or run.storage_nodes_with_data():
        raise LauncherError(f"{run.path} holds a cluster already: choose another RUN=, or `make wipe` that one first")


def undo_interrupted(cluster: Cluster, root: Path) -> None:
    """Ends and removes what a take-over left that was interrupted before the metadata store was filled. Kafka's directories are
    as they were."""
    if cluster.run.is_taking_over():
        cluster.down()
        cluster.run.remove(root)


def take_over(cluster: Cluster, kafka: KafkaDirectories, *, root: Path, say: Callable[[str], None]) -> None:
    """Fills a new etcd, and has each storage node serve the directories of the broker with its id. If that fails, RUN has no
    cluster, and Kafka's directories are as they were. Once it is done, Kafka's own metadata are set aside, and RUN keeps its
    cluster whatever happens."""
    run = cluster.run
    filled: list[str] = []
    for path in (path for paths in kafka.by_node.values() for path in paths):
        if run.lies_below(Path(path)):
            raise LauncherError(f"{path} lies below {run.path}, and `make wipe` would remove it: choose another RUN=")
    try:
        run.begin_take_over()
        run.write_shape(cluster.shape)
        for node_id, paths in kafka.by_node.items():
            run.place_of(f"storage-{node_id}", {LOG_DIRS: ",".join(paths)})
        fill_new_etcd(cluster, lambda: kafka.fill(cluster.shape.etcd_endpoint()), filled.append)
        run.end_take_over()
    except BaseException:
        run.remove(root)
        raise
    renamed = _set_aside(run, kafka)
    say("\n".join([filled[0], renamed, *filled[1:]]))


def go_on(run: RunDirectory, kafka: KafkaDirectories, say: Callable[[str], None]) -> bool:
    """Sets aside what an interrupted take-over of the same directories into RUN has left. False if there is nothing to do."""
    renamed = _set_aside(run, kafka) if kafka.are_served_by(run) else ""
    if renamed:
        say(f"the cluster in {run.path} had taken over already\n{renamed}\n{NEXT}")
    return bool(renamed)


def _set_aside(run: RunDirectory, kafka: KafkaDirectories) -> str:
    try:
        return kafka.set_aside()
    except LauncherError as reason:
        raise LauncherError(
            f"the cluster in {run.path} has taken over, but Kafka's own metadata are not set aside: {reason}. "
            "Mend that, then give the same command again"
        ) from reason


def give_back(
    cluster: Cluster,
    metadata_dirs: Sequence[str],
    *,
    with_credentials: bool,
    python: Path,
    root: Path,
    say: Callable[[str], None],
) -> None:
    """Writes the metadata of a stopped cluster where a new Kafka begins, with users' SCRAM credentials if asked. The cluster
    stays as it is."""
    refuse_if_running(cluster)
    run = cluster.run
    run.create()
    with tempfile.TemporaryDirectory(dir=run.path) as scratch:
        saved = Path(scratch) / "metadata.backup"
        try:
            cluster.start("etcd")
            cluster.wait_ready(["etcd"])
            backup(cluster, saved, with_credentials=with_credentials, python=python, root=root, say=lambda line: None)
        finally:
            stop_etcd(cluster)
        targets = [argument for path in metadata_dirs for argument in ("--metadata-dir", str(Path(path).absolute()))]
        asked = ["--with-credentials"] if with_credentials else []
        arguments = ["to-kafka", *asked, "--backup", str(saved), *targets, *_log_dirs(run, root)]
        say(run_module(MODULE, arguments, python=python, root=root))


def _log_dirs(run: RunDirectory, root: Path) -> list[str]:
    """The log directories of all storage nodes."""
    found: list[str] = []
    for node_id in range(1, run.storage_nodes_with_data() + 1):
        name = f"storage-{node_id}"
        given = entries_of(run.place_of(name, {}).get(LOG_DIRS, ""))
        found += [str(root / entry) for entry in given] or [str(run.data_directory(name) / "logs")]
    return found
