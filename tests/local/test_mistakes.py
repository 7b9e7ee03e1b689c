"""Mistakes of newcomers and operators: what is typed, what must be said, and that nothing is harmed.

A row is a mistake. Tables follow each other by what they need: nothing, a cluster that is down, one that runs.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from libs.commitlog import __main__ as commitlog
from libs.commitlog.files.filesystem import OsFileSystem
from libs.commitlog.partition_log.directory import LogDirectory
from libs.runtime.process import read_config
from libs.runtime.service_config import ServiceConfig
from services.controller.config import ControllerConfig
from services.controller.recovery import __main__ as recovery
from services.gateway.config import GatewayConfig
from services.group_coordinator.config import GroupCoordinatorConfig
from services.local import __main__ as local
from services.local.cluster_shape import PORTS_PER_GATEWAY, Shape
from services.local.run_directory import RunDirectory
from services.storage.config import StorageConfig
from services.storage.refusals import OTHER_CLUSTER, OTHER_NODE
from tests.commitlog.harness import append_some, open_log, sync
from tests.compat.clients.admin import Admin
from tests.support.cluster_harness import LocalCluster
from tests.support.ports import reserve_ports
from tests.support.requirements import ROOT, require
from tests.system.faults.small_disks import free_bytes, small_disk

Files = dict[str, bytes | None]


def files(path: Path) -> Files:
    """All that is below `path`: the content of each file, None for a folder."""
    found = sorted(path.rglob("*"))
    return {str(each.relative_to(path)): each.read_bytes() if each.is_file() else None for each in found}


# --- the launcher, without a cluster


def nothing(run: RunDirectory) -> None:
    pass


def a_thesis(run: RunDirectory) -> None:
    thesis = run.data / "storage-1" / "thesis.txt"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("mine", encoding="utf-8")


def a_file(run: RunDirectory) -> None:
    run.path.write_text("mine", encoding="utf-8")


def three_nodes(run: RunDirectory) -> None:
    run.create()
    run.write_shape(Shape(storage=3))
    for node_id in (1, 2, 3):
        run.data_directory(f"storage-{node_id}").mkdir()


def damaged_shape(run: RunDirectory) -> None:
    three_nodes(run)
    (run.path / "cluster.json").write_text("{", encoding="utf-8")


def impossible_shape(run: RunDirectory) -> None:
    three_nodes(run)
    (run.path / "cluster.json").write_text('{"storage": -1}', encoding="utf-8")


def damaged_places(run: RunDirectory) -> None:
    three_nodes(run)
    (run.path / "places.json").write_text("{", encoding="utf-8")


LAUNCHER: list[tuple[Callable[[RunDirectory], None], str, int, str]] = [
    (nothing, "up --gateways=two", 1, "GATEWAYS=two is not a whole number"),
    (nothing, "up --port=9o92", 1, "PORT=9o92 is not a whole number"),
    (nothing, "up --storage=0", 1, "STORAGE=0 is out of range: a local cluster has 1 to 20"),
    (nothing, "up --storage=21", 1, "STORAGE=21 is out of range"),
    (nothing, "up --gateways=10", 1, "GATEWAYS=10 is out of range"),
    (nothing, "up --controllers=0", 1, "CONTROLLERS=0 is out of range"),
    (nothing, "up --coordinators=8", 1, "COORDINATORS=8 is out of range"),
    (nothing, "up --nodes=2", 1, "NODES=2 takes ROLES=node; STORAGE= says how many storage nodes there are"),
    (nothing, "up --roles=node --nodes=2 --storage=3", 1, "NODES=2 and STORAGE=3 differ: a node is a storage node, so give one"),
    (nothing, "up --roles=node --nodes=0", 1, "NODES=0 is out of range"),
    (nothing, "up --roles=node --nodes=two", 1, "NODES=two is not a whole number"),
    (nothing, "up --port=80", 1, "PORT=80 is out of range"),
    (nothing, "up --port=65500", 1, "PORT=65500 is out of range: a cluster takes 100 ports from it on"),
    (nothing, "down", 0, "nothing to stop"),
    (nothing, "wipe", 0, "nothing to remove"),
    (nothing, "status", 1, "`make up` makes one"),
    (nothing, "backup saved", 1, "no cluster in"),
    (nothing, "restore saved", 1, "no cluster in"),
    (nothing, "rebuild", 1, "no cluster in"),
    (a_thesis, "wipe", 1, "made (no cluster.json): nothing is removed"),
    (a_thesis, "down", 0, "nothing to stop"),
    (a_thesis, "status", 1, "`make up` makes one"),
    (a_file, "up", 1, "Not a directory"),
    (a_file, "status", 1, "Not a directory"),
    (a_file, "wipe", 1, "holds no cluster"),
    (three_nodes, "up --storage=2", 1, "has data on 3 storage nodes: to have 2, empty and remove the others"),
    (three_nodes, "backup saved", 1, "does not run: `make up RUN="),
    (three_nodes, "status", 1, "stopped: no process runs; `make up` starts them"),
    (damaged_shape, "up", 1, "cluster.json is damaged"),
    (damaged_shape, "status", 1, "cluster.json is damaged"),
    (impossible_shape, "up", 1, "STORAGE=-1 is out of range"),
    (damaged_places, "up", 1, "places.json is damaged"),
]


@pytest.mark.parametrize(("before", "typed", "code", "said"), LAUNCHER, ids=[f"{row[0].__name__}: {row[1]}" for row in LAUNCHER])
def test_the_launcher_says_what_is_wrong_and_touches_nothing(
    before: Callable[[RunDirectory], None],
    typed: str,
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up: list[bool] = []
    monkeypatch.setattr(local, "set_up", lambda development: set_up.append(development))
    run = RunDirectory(tmp_path / "run")
    before(run)
    there = files(tmp_path)
    command, *arguments = typed.split()
    assert local.main([command, f"--run={run.path}", *arguments]) == code
    output = capsys.readouterr()
    lines = (output.out + output.err).splitlines()
    assert said in lines[-1 if command == "up" or code == 0 else 0]
    assert "Traceback" not in output.out + output.err
    after = files(tmp_path)
    after.pop("run/lock", None)
    assert after == there
    if "is out of range" in said or "is not a whole number" in said:
        assert set_up == [], "it was refused only after the set-up"


MAKE = [
    ("up STORGE=5", "no target takes STORGE"),
    ("up GATEWAY=2", "no target takes GATEWAY"),
    ("up port=9092", "no target takes port"),
    ("up RUN=", "RUN= is empty: name the folder that the cluster lives in"),
    ("wipe RUN=", "RUN= is empty"),
    ("backup RUN=/dev/null/run", "give the file: make backup FILE=metadata.backup"),
    ("restore RUN=/dev/null/run", "give the file: make restore FILE=metadata.backup"),
    ("upp", "No rule to make target 'upp'"),
]


def places_in_checkout() -> list[str]:
    """But for caches, which linters and other tests make meanwhile."""
    return sorted(path.name for path in ROOT.iterdir() if not path.name.endswith("_cache") and path.name != ".hypothesis")


@pytest.mark.parametrize(("typed", "said"), MAKE, ids=[typed for typed, _ in MAKE])
def test_make_says_what_is_wrong(typed: str, said: str) -> None:
    before = places_in_checkout()
    done = subprocess.run(["make", *typed.split()], cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 2
    assert said in done.stderr
    assert places_in_checkout() == before


@pytest.mark.parametrize("free_kib", [0, 16, 256, 60 * 1024])
def test_up_on_a_full_volume_is_refused_in_one_sentence(free_kib: int, tmp_path: Path) -> None:
    """It is full before the folder is made, the processes have their files, or etcd has its log, which takes more than 60 MiB."""
    require("etcd")
    ports = reserve_ports(PORTS_PER_GATEWAY)
    with small_disk("tmpfs", tmp_path, 1 + free_kib // 1024) as disk:
        (disk / "mine").write_bytes(b"x" * (free_bytes(disk) - free_kib * 1024))
        argv = [sys.executable, "-m", "services.local", "up", f"--run={disk / 'run'}", f"--port={ports.first}", "--storage=1"]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=120)
        local.main(["wipe", f"--run={disk / 'run'}"])
        left = [path.name for path in disk.iterdir() if path.name != "run"]
    ports.release()
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert f"Make room, then `make up RUN={disk / 'run'} PORT={ports.first}` again" in line or "since its volume is full" in line
    assert free_kib < 1024 or re.search(r"since its volume is full: .*, and etcd takes 128 MB there for its log", line)
    assert left == ["mine"]


# --- processes that are started by hand: their settings

SETTINGS: list[tuple[type[ServiceConfig], str, str]] = [
    (StorageConfig, "NODE_ID", "PENSTOCK_NODE_ID is not set (nor node_id in the file that PENSTOCK_CONFIG names)"),
    (StorageConfig, "NODE_ID=one", "PENSTOCK_NODE_ID is 'one'; expected a whole number"),
    (GatewayConfig, "NODE_ID=0", "PENSTOCK_NODE_ID is 0; expected 1 or more"),
    (StorageConfig, "ETCD=localhost", "PENSTOCK_ETCD has 'localhost'; expected host:port"),
    (ControllerConfig, "ETCD=", "PENSTOCK_ETCD is empty; expected host:port of each member of etcd"),
    (ControllerConfig, "DATA_DIR=", "PENSTOCK_DATA_DIR is empty; expected a path"),
    (GatewayConfig, "PEERS=storage-1", "PENSTOCK_PEERS has 'storage-1'; expected host:port"),
    (StorageConfig, "RPC_TCP=0.0.0.0", "PENSTOCK_RPC_TCP has '0.0.0.0'; expected host:port"),
    (ControllerConfig, "RPC_UNIX=", "PENSTOCK_RPC_UNIX or PENSTOCK_RPC_TCP must be set: nobody could reach this controller"),
    (ControllerConfig, f"RPC_UNIX=/{'x' * 110}", "PENSTOCK_RPC_UNIX is longer than 107 bytes"),
    (GroupCoordinatorConfig, "ADMIN_PORT=99999", "PENSTOCK_ADMIN_PORT is 99999; expected 0 to 65535"),
    (GatewayConfig, "PORT_BASE=99999", "PENSTOCK_PORT_BASE is 99999; expected 1 to 65534"),
    (GatewayConfig, "LISTEN_HOST=", "PENSTOCK_LISTEN_HOST is empty; expected the name or address of a host"),
    (GatewayConfig, "ADVERTISED_HOST= ", "PENSTOCK_ADVERTISED_HOST is empty; expected the name or address of a host"),
    (StorageConfig, "ADMIN_HOST=", "PENSTOCK_ADMIN_HOST is empty; expected the name or address of a host"),
    (GatewayConfig, "LOG_LEVEL=loud", "PENSTOCK_LOG_LEVEL is 'loud'; expected trace, debug, info, warning or error"),
    (GatewayConfig, "MEMBER_TTL_S=0", "PENSTOCK_MEMBER_TTL_S is 0; expected 1 or more"),
    (GatewayConfig, "SILENCE_S=0.1", "PENSTOCK_SILENCE_S is 0.1; expected 1.5 to 60.0"),
    (GatewayConfig, "IDLE_S_MAX=long", "PENSTOCK_IDLE_S_MAX is 'long'; expected a number"),
    (ControllerConfig, "DEFAULT_DURABILITY=fast", "PENSTOCK_DEFAULT_DURABILITY is 'fast'; expected synced or replicated"),
    (ControllerConfig, "DEFAULT_PARTITIONS=0", "PENSTOCK_DEFAULT_PARTITIONS is 0; expected 1 or more"),
    (StorageConfig, "LOG_DIRS=,", "PENSTOCK_LOG_DIRS is ','; expected a list, separated by commas"),
    (StorageConfig, "LOG_DIRS=/a,/b,/a", "PENSTOCK_LOG_DIRS names /a twice"),
    (StorageConfig, "BROKER_CONFIGS=log.retention.hours", "expected name=value"),
    (StorageConfig, "BROKER_CONFIGS=log.retention.hours=soon", "Invalid value soon for configuration log.retention.hours"),
    (StorageConfig, "BROKER_CONFIGS=no.such.config=1", "Unknown broker config name: no.such.config"),
    (StorageConfig, "CONFIG=/nowhere/config.toml", "cannot read /nowhere/config.toml: No such file or directory"),
]


@pytest.mark.parametrize(("config", "typed", "said"), SETTINGS, ids=[f"{row[0].__name__}: {row[1][:30]}" for row in SETTINGS])
def test_a_process_says_which_setting_is_wrong(
    config: type[ServiceConfig], typed: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    good = {
        "NODE_ID": "1",
        "ETCD": "127.0.0.1:1",
        "DATA_DIR": str(tmp_path),
        "RPC_UNIX": str(tmp_path / "s"),
        "PORT_BASE": "9092",
    }
    for name, value in good.items():
        monkeypatch.setenv(f"PENSTOCK_{name}", value)
    name, equals, value = typed.partition("=")
    monkeypatch.setenv(f"PENSTOCK_{name}", value)
    if not equals:
        monkeypatch.delenv(f"PENSTOCK_{name}")
    with pytest.raises(SystemExit) as ended:
        read_config(config, "role")
    assert str(ended.value).startswith("role: ")
    assert said in str(ended.value)
    assert files(tmp_path) == {}


# --- the tools for log directories and metadata


@pytest.fixture(scope="module")
def log_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound log directory of a stopped node, with one partition."""
    root = tmp_path_factory.mktemp("disk") / "logs"
    directory = LogDirectory.open(str(root), OsFileSystem(), new_id=bytes(range(16)), node_id=1, cluster_id="c")
    path = Path(directory.create_partition("t", 0, bytes(range(16))))
    log = open_log(path)
    append_some(log, 10)
    sync(log, resume_point=True)
    log.close(clean=True)
    directory.close()
    (root.parent / "notes.txt").write_text("mine", encoding="utf-8")
    (root.parent / "empty").mkdir()
    return root.parent


LOG_TOOL = [
    ("verify nowhere", commitlog.USAGE, "No such file or directory"),
    ("inspect nowhere", commitlog.USAGE, "No such file or directory"),
    ("verify notes.txt", commitlog.USAGE, "Not a directory"),
    ("verify empty", commitlog.USAGE, "is neither a log directory nor a partition's"),
    ("inspect .", commitlog.USAGE, "is neither a log directory nor a partition's"),
    ("inspect --batches logs", commitlog.USAGE, "--batches shows one partition: name its directory"),
    ("accept-loss logs", commitlog.USAGE, "is no partition's directory in a log directory"),
    ("accept-loss nowhere", commitlog.USAGE, "is no partition's directory in a log directory"),
    ("accept-loss logs/t-0", commitlog.PROBLEMS, "has lost nothing: there is nothing to accept, and nothing was written"),
    ("inspect --batches --from soon logs/t-0", commitlog.USAGE, "invalid int value: 'soon'"),
    ("repair logs", commitlog.USAGE, "invalid choice: 'repair'"),
    ("verify", commitlog.USAGE, "the following arguments are required: DIR"),
]


@pytest.mark.parametrize(("typed", "code", "said"), LOG_TOOL, ids=[typed for typed, _, _ in LOG_TOOL])
def test_the_tool_for_log_directories_says_what_is_wrong_and_changes_nothing(
    log_directory: Path, typed: str, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(log_directory)
    before = files(log_directory)
    assert exit_code(lambda: commitlog.main(typed.split())) == code
    assert said in capsys.readouterr().err
    assert files(log_directory) == before


RECOVERY = [
    ("collect nowhere", "nowhere/logs cannot be read: its meta.properties does not say whose it is"),
    ("collect empty", "empty/logs cannot be read: its meta.properties does not say whose it is"),
    ("rebuild --dry-run nowhere", "nowhere"),
    ("rebuild --dry-run notes.txt", "notes.txt"),
    ("restore --etcd 127.0.0.1:1 nowhere", "nowhere does not exist"),
    ("restore --etcd 127.0.0.1:1 notes.txt", "notes.txt"),
    ("rebuild nowhere", "one of the arguments --etcd --dry-run is required"),
    ("backup saved", "the following arguments are required: --etcd"),
]


@pytest.mark.parametrize(("typed", "said"), RECOVERY, ids=[typed for typed, _ in RECOVERY])
def test_the_tool_for_metadata_says_what_is_wrong_and_changes_nothing(
    log_directory: Path, typed: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(log_directory)
    before = files(log_directory)
    assert exit_code(lambda: recovery.main(typed.split())) in (1, 2)
    assert said in capsys.readouterr().err
    assert files(log_directory) == before


def exit_code(main: Callable[[], int]) -> int:
    try:
        return main()
    except SystemExit as ended:
        return int(ended.code or 0)


# --- a cluster that runs: processes that are started by hand beside it


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as running:
        yield running


def own(directory: Path, **changes: Any) -> Path:
    """A log directory of node 7."""
    given = {"new_id": os.urandom(16), "node_id": 7, **changes}
    LogDirectory.open(str(directory), OsFileSystem(), **given).close()
    return directory


def copied(cluster: LocalCluster, directory: Path) -> dict[str, str]:
    original = own(directory / "one")
    shutil.copytree(original, directory / "two")
    return {"LOG_DIRS": f"{original},{directory / 'two'}"}


def retired(cluster: LocalCluster, directory: Path) -> dict[str, str]:
    (own(directory / "one") / ".retired").write_text("a sync failed\n", encoding="utf-8")
    return {"LOG_DIRS": str(directory / "one")}


def theirs(cluster: LocalCluster, directory: Path) -> dict[str, str]:
    shutil.copytree(cluster.data_directory("storage-1") / "logs", directory / "one")
    return {"LOG_DIRS": str(directory / "one")}


def unreadable(cluster: LocalCluster, directory: Path) -> dict[str, str]:
    (own(directory / "one") / "meta.properties").write_text("directory.id=nothing\n", encoding="utf-8")
    return {"LOG_DIRS": str(directory / "one")}


def no_incarnation(cluster: LocalCluster, directory: Path) -> dict[str, str]:
    (directory / "incarnation").write_text("soon", encoding="utf-8")
    return {}


By = Callable[[LocalCluster, Path], dict[str, str]]
HAND: dict[str, tuple[str, By, str]] = {
    "the data directory of a node that runs": (
        "storage",
        lambda cluster, _: {"DATA_DIR": str(cluster.data_directory("storage-1"))},
        "is in use by another storage process",
    ),
    "the node id of a node that runs": ("storage", lambda *_: {"NODE_ID": "1"}, "storage node 1 runs already, at "),
    "the log directory of a node that runs": (
        "storage",
        lambda cluster, _: {"LOG_DIRS": str(cluster.data_directory("storage-1") / "logs")},
        "logs/.lock is held by another process",
    ),
    "a copy of another node's log directory": ("storage", theirs, OTHER_NODE),
    "another cluster's log directory": (
        "storage",
        lambda _, directory: {"LOG_DIRS": str(own(directory / "one", cluster_id="c" * 22))},
        OTHER_CLUSTER,
    ),
    "a log directory and its copy": ("storage", copied, "is a copy of"),
    "a retired log directory": ("storage", retired, "check its disk, then remove"),
    "a damaged log directory": ("storage", unreadable, "'nothing' is not an id"),
    "a damaged incarnation": ("storage", no_incarnation, "does not hold a number: restore it, or remove it"),
    "no log directory, but a file": ("storage", lambda *_: {"LOG_DIRS": str(ROOT / "Makefile")}, "File exists"),
    "a gateway's data directory that cannot be made": ("gateway", lambda *_: {"DATA_DIR": "/dev/null/g"}, "Not a directory"),
    "the data directory of a gateway that runs": (
        "gateway",
        lambda cluster, _: {"DATA_DIR": str(cluster.data_directory("gateway-1"))},
        "data directory is in use by another process",
    ),
    "a bootstrap port that is taken": (
        "gateway",
        lambda cluster, _: {"PORT_BASE": str(cluster.shape.port)},
        "Address already in use: 'tcp:127.0.0.1:",
    ),
    "an admin port that is taken": (
        "gateway",
        lambda cluster, _: {"ADMIN_PORT": str(cluster.shape.admin_port("storage", 1))},
        "address already in use",
    ),
}
"""By name: the service, what is prepared and set, and what it says."""

STARTED = """
import json, os, sys
from libs.cluster.records import GATEWAY
from libs.runtime.process import run_service
from services.gateway.__main__ import GatewayConfig, serve
from services.storage.__main__ import main

pids = []
for service, settings, output in json.load(sys.stdin):
    pids.append(os.fork())
    if not pids[-1]:
        os.environ.update(settings)
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        main() if service == "storage" else run_service(GatewayConfig, GATEWAY, serve)
print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids])
"""
"""One program that has imported everything and starts all of them side by side: each by itself would take half a second."""


class Hand(NamedTuple):
    codes: dict[str, int]
    output: dict[str, str]
    harmed: set[str]
    """The files that were there before and changed."""


@pytest.fixture(scope="module")
def hand(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hand]:
    scratch = tmp_path_factory.mktemp("hand")
    sockets = tempfile.mkdtemp(prefix="ps-")
    rows = []
    for number, (service, settings, _) in enumerate(HAND.values()):
        directory = scratch / f"{number}"
        directory.mkdir()
        given = {
            "NODE_ID": "7",
            "ETCD": cluster.etcd_endpoint,
            "DATA_DIR": str(directory),
            "RPC_UNIX": f"{sockets}/{number}",
            "PORT_BASE": str(cluster.shape.port + 40),
            **settings(cluster, directory),
        }
        environment = {f"PENSTOCK_{name}": value for name, value in given.items()}
        rows.append((service, environment, str(scratch / f"{number}.txt")))
    places = [scratch, cluster.data_directory("storage-1") / "logs" / "meta.properties", ROOT / "Makefile"]
    places.append(cluster.data_directory("gateway-1") / "incarnation")
    before = stamps(places)
    argv = [sys.executable, "-c", STARTED]
    done = subprocess.run(argv, input=json.dumps(rows), cwd=ROOT, capture_output=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, done.stderr
    codes = dict(zip(HAND, json.loads(done.stdout), strict=True))
    output = {name: (scratch / f"{number}.txt").read_text(encoding="utf-8") for number, name in enumerate(HAND)}
    after = stamps(places)
    yield Hand(codes, output, {path for path, stamp in before.items() if after.get(path) != stamp})
    shutil.rmtree(sockets)


def stamps(places: list[Path]) -> dict[str, int]:
    paths = [each for place in places for each in (place.rglob("*") if place.is_dir() else [place]) if each.is_file()]
    return {str(path): path.stat().st_mtime_ns for path in paths}


def check_hand(name: str, hand: Hand) -> None:
    """The process said what is wrong in one line, and ended."""
    _, _, said = HAND[name]
    assert hand.codes[name] == 1
    lines = [line for line in hand.output[name].splitlines() if "level=info" not in line and "level=warning" not in line]
    assert said in lines[-1], hand.output[name]
    assert "Traceback" not in hand.output[name]
    assert len(lines) == 1 or "log directory cannot be used" in lines[0] or "broker port not opened" in lines[0]


# --- a cluster that runs: clients of its operator


@pytest.fixture(scope="module")
def admin(cluster: LocalCluster) -> Iterator[Admin]:
    """With a topic that somebody needs."""
    opened = Admin(cluster.bootstrap)
    opened.create("precious", 2, {"retention.ms": "777000"})
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce("precious", b"one", partition=0)
    assert producer.flush(60) == 0
    with pytest.raises(KafkaException):  # the first request about a group makes the topic of offsets
        opened.client.delete_consumer_groups(["nobody's"])["nobody's"].result(60)
    yield opened
    opened.close()


def create(name: str, partitions: int = 1, replicas: int = 1, **more: Any) -> Callable[[AdminClient], Future[Any]]:
    return lambda admin: admin.create_topics([NewTopic(name, partitions, replicas, **more)])[name]


def delete(name: str) -> Callable[[AdminClient], Future[Any]]:
    return lambda admin: admin.delete_topics([name])[name]


def grow(name: str, count: int, **more: Any) -> Callable[[AdminClient], Future[Any]]:
    return lambda admin: admin.create_partitions([NewPartitions(name, count, **more)])[name]


def configure(kind: ResourceType, name: str, key: str, value: str) -> Callable[[AdminClient], Future[Any]]:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    return lambda admin: admin.incremental_alter_configs([resource])[resource]


def describe(kind: ResourceType, name: str) -> Callable[[AdminClient], Future[Any]]:
    resource = ConfigResource(kind, name)
    return lambda admin: admin.describe_configs([resource])[resource]


def delete_records(name: str, partition: int, offset: int) -> Callable[[AdminClient], Future[Any]]:
    where = TopicPartition(name, partition, offset)
    return lambda admin: next(iter(admin.delete_records([where]).values()))


TOPIC, BROKER, GROUP = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP
CLIENT: list[tuple[str, Callable[[AdminClient], Future[Any]], str, str]] = [
    ("creates a topic that is there", create("precious"), "TOPIC_ALREADY_EXISTS", "Topic 'precious' already exists."),
    (
        "creates a topic with a blank in its name",
        create("my orders"),
        "TOPIC_EXCEPTION",
        "'my orders' contains one or more characters other than ASCII alphanumerics",
    ),
    ("creates a topic without a name", create(""), "TOPIC_EXCEPTION", "the empty string is not allowed"),
    ("creates a topic with a name of 250 characters", create("x" * 250), "TOPIC_EXCEPTION", "the length of 'xxx"),
    ("creates a topic called ..", create(".."), "TOPIC_EXCEPTION", "'.' or '..' is not allowed"),
    (
        "wants more replicas than there are nodes",
        create("t", 1, 3),
        "INVALID_REPLICATION_FACTOR",
        "factor of 3 cannot be reached because only 1 broker(s) are registered",
    ),
    (
        "wants no replicas",
        create("t", 1, 0),
        "INVALID_REPLICATION_FACTOR",
        "must be larger than 0, or -1 to use the default value",
    ),
    ("wants no partitions", create("t", 0), "INVALID_PARTITIONS", "invalid non-positive value"),
    ("wants a hundred thousand partitions", create("t", 100_000), "POLICY_VIOLATION", "Excessively large number of partitions"),
    (
        "names a broker that there is not",
        create("t", 1, -1, replica_assignment=[[9]]),
        "INVALID_REPLICA_ASSIGNMENT",
        "includes broker 9, but no such broker is registered",
    ),
    (
        "names a broker twice",
        create("t", 1, -1, replica_assignment=[[1, 1]]),
        "INVALID_REPLICA_ASSIGNMENT",
        "includes the broker 1 more than once",
    ),
    (
        "creates a topic with an unknown config",
        create("t", config={"retention": "1"}),
        "INVALID_CONFIG",
        "Unknown topic config name: retention",
    ),
    (
        "creates a topic with a config that is no number",
        create("t", config={"retention.ms": "week"}),
        "INVALID_CONFIG",
        "Invalid value week for configuration retention.ms: Not a number",
    ),
    (
        "creates a topic with an unknown cleanup policy",
        create("t", config={"cleanup.policy": "shred"}),
        "INVALID_CONFIG",
        "Invalid value shred for configuration cleanup.policy",
    ),
    ("deletes a topic that there is not", delete("precios"), "UNKNOWN_TOPIC_OR_PART", "Unknown topic or partition"),
    (
        "takes partitions away",
        grow("precious", 1),
        "INVALID_PARTITIONS",
        "currently has 2 partition(s); 1 would not be an increase",
    ),
    ("asks for the partitions that there are", grow("precious", 2), "INVALID_PARTITIONS", "Topic already has 2 partition(s)."),
    (
        "adds partitions to a topic that there is not",
        grow("precios", 3),
        "UNKNOWN_TOPIC_OR_PART",
        "does not host this topic-partition",
    ),
    (
        "adds a partition on a broker that there is not",
        grow("precious", 3, replica_assignment=[[9]]),
        "INVALID_REPLICA_ASSIGNMENT",
        "includes broker 9, but no such broker is registered",
    ),
    (
        "sets an unknown topic config",
        configure(TOPIC, "precious", "retention", "1"),
        "INVALID_CONFIG",
        "Unknown topic config name: retention",
    ),
    (
        "sets a negative segment size",
        configure(TOPIC, "precious", "segment.bytes", "-1"),
        "INVALID_CONFIG",
        "Value must be at least 1048576",
    ),
    (
        "sets an unknown compression",
        configure(TOPIC, "precious", "compression.type", "rar"),
        "INVALID_CONFIG",
        "Invalid value rar for configuration compression.type",
    ),
    (
        "configures a topic that there is not",
        configure(TOPIC, "precios", "retention.ms", "1"),
        "UNKNOWN_TOPIC_OR_PART",
        "The topic 'precios' does not exist.",
    ),
    (
        "configures a broker by name",
        configure(BROKER, "storage-1", "log.cleaner.threads", "2"),
        "_INVALID_ARG",
        "Expected an int32 broker_id",
    ),
    (
        "sets a broker config that Kafka retired",
        configure(BROKER, "1", "log.message.timestamp.difference.max.ms", "2"),
        "INVALID_CONFIG",
        "log.message.timestamp.before.max.ms",
    ),
    (
        "sets the id of a broker",
        configure(BROKER, "1", "node.id", "2"),
        "INVALID_REQUEST",
        "Cannot update these configs dynamically: Set(node.id)",
    ),
    (
        "empties the only node",
        configure(BROKER, "1", "decommission", "true"),
        "INVALID_REQUEST",
        "Broker 1 cannot be decommissioned: ",
    ),
    (
        "sets an unknown group config",
        configure(GROUP, "billing", "session.timeout.ms", "1"),
        "INVALID_CONFIG",
        "Unknown group config name: session.timeout.ms",
    ),
    (
        "sets a session that is too short",
        configure(GROUP, "billing", "consumer.session.timeout.ms", "1"),
        "INVALID_CONFIG",
        "must be greater than or equal to group.consumer.min.session.timeout.ms",
    ),
    ("describes a topic that there is not", describe(TOPIC, "precios"), "UNKNOWN_TOPIC_OR_PART", "Unknown topic or partition"),
    ("deletes records beyond the end", delete_records("precious", 0, 99), "OFFSET_OUT_OF_RANGE", "Offset out of range"),
    ("deletes records of a partition that there is not", delete_records("precious", 9, 1), "_NOENT", "No leaders found"),
    ("deletes committed offsets", delete_records("__consumer_offsets", 0, 1), "TOPIC_EXCEPTION", "Invalid topic"),
    (
        "deletes a group that there is not",
        lambda admin: admin.delete_consumer_groups(["biling"])["biling"],
        "GROUP_ID_NOT_FOUND",
        "The group id does not exist",
    ),
]
"""Who does it, the error's name, and words of its message."""


def precious(admin: Admin) -> object:
    """All that an operator would miss."""
    topics = {name: len(topic.partitions) for name, topic in admin.client.list_topics(timeout=60).topics.items()}
    earliest = {TopicPartition("precious", index): OffsetSpec.earliest() for index in (0, 1)}
    latest = {TopicPartition("precious", index): OffsetSpec.latest() for index in (0, 1)}
    offsets = [each.result().offset for asked in (earliest, latest) for each in admin.client.list_offsets(asked).values()]
    configs = [admin.config(kind, name) for kind, name in ((TOPIC, "precious"), (BROKER, "1"))]
    return topics, offsets, [{key: entry.value for key, entry in each.items()} for each in configs]


def check_client(done: Callable[[AdminClient], Future[Any]], error: str, words: str, admin: Admin) -> None:
    """The client was refused by name, and nothing changed."""
    before = precious(admin)
    with pytest.raises(KafkaException) as raised:
        done(admin.client).result(60)
    refused = raised.value.args[0]
    assert refused.name() == error
    assert words in refused.str()
    assert precious(admin) == before


def test_beside_a_cluster_that_runs_each_mistake_is_named_and_harms_nothing(
    subtests: pytest.Subtests, cluster: LocalCluster, hand: Hand, admin: Admin
) -> None:
    """One test, so that one worker makes one cluster for all rows."""
    for name in HAND:
        with subtests.test(name):
            check_hand(name, hand)
    assert hand.harmed == set()
    for name, done, error, words in CLIENT:
        with subtests.test(name):
            check_client(done, error, words, admin)
    assert all(cluster.is_running(name) for name in cluster.names)
