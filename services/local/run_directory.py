"""The folder in which one local cluster lives: pids, logs, data, sockets and the shape it was started with."""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from services.local.client_listeners import PREFIXES
from services.local.cluster_shape import Shape
from services.local.errors import LauncherError

LOG_DIRS = "PENSTOCK_LOG_DIRS"
LISTEN_HOST, ADVERTISED_HOST = "PENSTOCK_LISTEN_HOST", "PENSTOCK_ADVERTISED_HOST"
PLACE = (LOG_DIRS, "PENSTOCK_RACK", LISTEN_HOST, ADVERTISED_HOST, "PENSTOCK_ADMIN_TOKEN_FILE")
"""Without its log directories a storage node has lost its data; without its rack, replicas move; without the hosts of its
gateways, clients lose the cluster; without the token of the admin port, everybody may look into a process. The settings of its
other listeners (`client_listeners.py`) are part of it too."""

PROCESS = r"(etcd|zipkin|(controller|storage|gateway|node|group_coordinator|transaction_coordinator|quota_manager)-\d+)"
"""The names of processes, and so of their files."""
FORMER_ETCD = r"etcd-before-[\d-]+(-failed)?"

EXAMPLE = "pipeline"
EXAMPLE_FILES = ("lake", "packages.log", "packages.toml")
"""What `make pipeline` makes of this cluster's topics, in the order of removal: the job file is the mark of it."""

UNKNOWN_BEFORE = ("quota_managers", "traces", "security", "roles")
"""The parts of a shape that the former version refuses to read."""

SECRETS = (
    r"(ca\.key|ca\.pem|gateway\.pem|first-users|admin-token|admin-password|client\.properties|kcat\.conf|etcd-ca\.key|"
    r"etcd(-[a-z_-]+)?\.pem)(\.tmp)?"
)
"""The files of SECURITY=on (`libs/local_security/`)."""

LONGEST_SOCKET_PATH = 107  # sun_path holds 108 bytes, the last of which is 0


def entries_of(setting: str) -> list[str]:
    """The entries of a setting that is a list, as services read it (`libs/runtime/config.py`)."""
    return [entry.strip() for entry in setting.split(",") if entry.strip()]


class RunDirectory:
    """Paths below RUN. Creates nothing until `create()`."""

    def __init__(self, path: str | Path) -> None:
        # Marks of processes hold it as text: each way to write RUN must give the same one.
        self.path = Path(os.path.realpath(path))
        self.pids = self.path / "pids"
        self.logs = self.path / "logs"
        self.data = self.path / "data"
        self.sockets = _socket_directory(self.path)
        self._shape_file = self.path / "cluster.json"
        self._places_file = self.path / "places.json"
        self._lock_file = self.path / "lock"
        self._taking_over_file = self.path / "taking-over"
        self.security = self.path / "security"
        self.keystore = self.security / "gateway.pem"

    def pid_file(self, name: str) -> Path:
        return self.pids / f"{name}.pid"

    def log_file(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def data_directory(self, name: str) -> Path:
        return self.data / name

    def socket(self, name: str) -> Path:
        return self.sockets / f"{name}.sock"

    def holds_cluster(self) -> bool:
        """Whether `up` made a cluster here that was not wiped since. Its shape is the mark. True also while one is taken over."""
        return self._shape_file.is_file() or self.is_taking_over()

    def is_taking_over(self) -> bool:
        """Whether a cluster of Kafka's directories was begun here, and its metadata store is perhaps not filled."""
        return self._taking_over_file.exists()

    def begin_take_over(self) -> None:
        """Until `end_take_over`, also after a crash of the host, `read_shape` refuses the cluster."""
        self.path.mkdir(parents=True, exist_ok=True)
        self._taking_over_file.touch()
        _sync_directory(self.path)

    def end_take_over(self) -> None:
        for directory in (self.data, self.path, self.path.parent):
            _sync_directory(directory)
        self._taking_over_file.unlink()
        _sync_directory(self.path)

    def create(self) -> None:
        for directory in (self.pids, self.logs, self.data):
            directory.mkdir(parents=True, exist_ok=True)
        self.sockets.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.sockets.stat().st_uid != os.getuid():
            raise LauncherError(f"{self.sockets} belongs to someone else; choose another RUN=")

    def read_shape(self) -> Shape | None:
        """The shape of the last `up`, or None if there was none since the last `wipe`. Raises LauncherError if it is damaged, and
        while a take-over of Kafka's directories is not complete."""
        if self.is_taking_over():
            raise LauncherError(
                f"{self.path} has the rest of a `make from-kafka` that was interrupted: give that command again, or `make wipe`"
            )
        try:
            return Shape(**json.loads(self._shape_file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as reason:
            raise LauncherError(
                f"{self._shape_file} is damaged ({reason}); remove it, then give the shape to `make up`"
            ) from reason

    def write_shape(self, shape: Shape) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        written = asdict(shape)
        for name in UNKNOWN_BEFORE:
            if written[name] == getattr(Shape, name):
                del written[name]  # after a rollback the former version reads the file
        replace_file(self._shape_file, written)

    def place_of(self, name: str, given: Mapping[str, str], *, remember: bool = True) -> dict[str, str]:
        """Where a process is: what it is given now of `PLACE`, and of listeners, else what it was given before."""
        places = self._read_places()
        before = places.get(name, {})
        place = {**before, **{variable: value for variable, value in given.items() if _is_of_place(variable)}}
        if remember and place != before:
            replace_file(self._places_file, places | {name: place})
        return place

    def lies_below(self, path: Path) -> bool:
        """Whether RUN holds `path`, however it is written."""
        return self.path in Path(os.path.realpath(path)).parents

    def log_directories_elsewhere(self, root: Path) -> list[Path]:
        """Those of storage nodes that `remove` leaves, since they lie outside of RUN. `root`: where the processes run."""
        return [path for path in self._log_directories(root) if not self.lies_below(path)]

    def _log_directories(self, root: Path) -> list[Path]:
        """Those that storage nodes were given, without symbolic links and `..`."""
        texts = [place.get(LOG_DIRS, "") for name, place in self._read_places().items() if name.startswith("storage-")]
        paths = [Path(os.path.realpath(root / entry)) for text in texts for entry in entries_of(text)]
        return [path for path in dict.fromkeys(paths) if path.is_dir()]

    def directories_in_use(self) -> list[Path]:
        """The data directories of processes that live: each of them holds the lock of its own."""
        return [path for path in sorted(_entries(self.data)) if _is_locked(path / ".lock")]

    def _read_places(self) -> dict[str, dict[str, str]]:
        try:
            places: dict[str, dict[str, str]] = json.loads(self._places_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError as reason:
            raise LauncherError(
                f"{self._places_file} is damaged ({reason}); remove it, then give {', '.join(PLACE)} and the settings of "
                f"listeners and the authorizer ({', '.join(f'{prefix}…' for prefix in PREFIXES)}) anew: without them clients "
                "may do everything"
            ) from reason
        return places

    def storage_nodes(self) -> list[int]:
        """The ids of those that were ever started, in order. A folder beside theirs, such as `storage-1.bak`, is nobody's."""
        return sorted(int(name[1]) for path in _entries(self.data) if (name := re.fullmatch(r"storage-([1-9]\d*)", path.name)))

    def storage_nodes_with_data(self) -> int:
        """The highest id of those that were ever started."""
        return max(self.storage_nodes(), default=0)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """One launcher at a time: two at once would start everything twice."""
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self._lock_file, "w", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print(f"waiting for another launcher that works on {self.path}", flush=True)
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def remove(self, root: Path) -> list[Path]:
        """Removes the files of a cluster's processes. Returns what else is here: RUN may name a folder with other things in it.

        The mark of a cluster goes last, so that an interrupted removal can be repeated.
        """
        for path in self._log_directories(root):
            if self.lies_below(path):
                _remove(path)
        for directory, names in (
            (self.pids, rf"{PROCESS}\.(pid|tmp)"),
            (self.logs, rf"{PROCESS}\.log(\.\d+)?|etcd-[\dT.-]+\.log"),
            (self.data, rf"{PROCESS}|{FORMER_ETCD}|protection\.(json|tmp)"),
            (self.sockets, rf"({PROCESS}|ports-\d+-\d+)\.sock"),
            (self.security, SECRETS),
        ):
            for path in [path for path in _entries(directory) if re.fullmatch(names, path.name)]:
                _remove(path)
            with contextlib.suppress(OSError):
                directory.rmdir()
        self._remove_example()
        folders = (self.pids, self.logs, self.data, self.sockets, self.security)
        left = [path for directory in folders for path in _entries(directory)]
        marks = (self._places_file, self._lock_file, self._shape_file, self._taking_over_file)
        left += [path for path in _entries(self.path) if path not in {*marks, *folders}]
        for file in marks:
            file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.path.rmdir()
        return sorted(left)

    def _remove_example(self) -> None:
        """Its checkpoints name the topics of this cluster, so that the example could not go on with those of the next one."""
        folder = self.path / EXAMPLE
        if not (folder / EXAMPLE_FILES[-1]).is_file():
            return
        for path in [folder / name for name in EXAMPLE_FILES if (folder / name).exists()]:
            _remove(path)
        with contextlib.suppress(OSError):
            folder.rmdir()


def _is_of_place(variable: str) -> bool:
    return variable in PLACE or variable.startswith(PREFIXES)


def _entries(directory: Path) -> list[Path]:
    return list(directory.iterdir()) if directory.is_dir() else []


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _is_locked(file: Path) -> bool:
    try:
        with open(file, encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (FileNotFoundError, NotADirectoryError):
        pass
    return False


def replace_file(file: Path, content: object) -> None:
    """Writes JSON. The file is whole at any time."""
    beside = file.with_suffix(".tmp")
    with open(beside, "w", encoding="utf-8") as written:
        written.write(json.dumps(content) + "\n")
        written.flush()
        os.fsync(written.fileno())
    beside.replace(file)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _socket_directory(run: Path) -> Path:
    """RUN/sockets, or a short folder elsewhere if RUN is too deep for a Unix socket's address."""
    inside = run / "sockets"
    if len(os.fsencode(inside)) + len("/transaction-coordinator-99.sock") <= LONGEST_SOCKET_PATH:
        return inside
    fingerprint = hashlib.sha256(os.fsencode(run)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"penstock-{fingerprint}"
