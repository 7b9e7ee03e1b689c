"""The command line behind `make up`, `down`, `wipe`, `status`, `setup`, `backup`, `restore`, `rebuild`, `upgrade`, `from-kafka`
and `to-kafka`."""

import argparse
import errno
import fcntl
import io
import json
import os
import sys
import time
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path

from services.local import advertised_host, etcd_protection, first_users, migration, protection, recovery, security_files
from services.local.asked_health import ask_health
from services.local.client_listeners import bootstrap_servers
from services.local.cluster import Cluster
from services.local.cluster_health import HEALTHY
from services.local.cluster_shape import MOST_STORAGE, NODE_ROLES, SECURED, UNSECURED, ZIPKIN_TRACES, Shape
from services.local.errors import LauncherError
from services.local.etcd_setup import etcd_binary, is_safe, set_up_etcd, version_of
from services.local.etcd_users import set_up_users
from services.local.given_settings import refuse_unknown, warn_of_settings
from services.local.hints import DEFAULT_RUN, with_given
from services.local.pipeline_setup import set_up_pipeline
from services.local.python_setup import set_up_python, venv_python
from services.local.run_directory import ADVERTISED_HOST, LOG_DIRS, RunDirectory
from services.local.status_rows import fields_of, mebibytes, row_of
from services.local.upgrade import names_running_other_code, upgrade
from services.local.zipkin_setup import set_up_zipkin

ROOT = Path(__file__).resolve().parents[2]


def say(line: str) -> None:
    print(line, flush=True)


def set_up(*, development: bool) -> None:
    (ROOT / ".tools").mkdir(exist_ok=True)
    with open(ROOT / ".tools" / "setup.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        python = set_up_python(ROOT, development=development, say=say)
        only_safe = bool(os.environ.get("CI") or os.environ.get("PENSTOCK_REQUIRE_ALL"))
        set_up_etcd(ROOT, python=python, only_safe=only_safe, say=say)


def cluster_of(run: RunDirectory, shape: Shape) -> Cluster:
    return Cluster(shape, run, root=ROOT, python=venv_python(ROOT), etcd=etcd_binary(ROOT))


def set_up_for_pipeline() -> None:
    (ROOT / ".tools").mkdir(exist_ok=True)
    with open(ROOT / ".tools" / "pipeline.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        set_up_pipeline(ROOT, say=say)


def up(run: RunDirectory, given: argparse.Namespace) -> None:
    remembered = run.read_shape()
    wanted = shape_of(remembered, given)  # raises before a folder is made for a shape that cannot be
    protection.refuse_lost_shape(run, remembered, wanted)
    refuse_unknown(os.environ, ROOT)
    if wanted.security == SECURED:
        protection.refuse_settings(os.environ)
        if given.add_scram_file is not None:
            raise LauncherError("SECURITY=on has a first user of its own, who makes others: leave ADD_SCRAM_FILE= out")
    if given.host is not None:
        os.environ.update(advertised_host.settings_for(given.host, os.environ))
    if given.add_scram_file is not None:
        os.environ.update(first_users.settings_for(given.add_scram_file, run, say))
    set_up(development=False)
    if wanted.traces == ZIPKIN_TRACES:
        set_up_zipkin(ROOT, say=say)
    started_at = time.monotonic()
    with run.locked():
        before = run.read_shape()
        shape = shape_of(before, given)
        cluster = cluster_of(run, shape)
        if before is not None and before != shape:
            refuse_change(before, cluster)
        if shape.security == SECURED:
            os.environ.update(security_files.make(cluster, python=venv_python(ROOT), root=ROOT, say=say))
            cluster = cluster_of(run, shape)  # whose etcd has TLS now that there are certificates
            if not cluster.etcd_tls:
                say(f"warning: {etcd_protection.LATER}")
        if given.host is not None:
            advertised_host.refuse_running_elsewhere(cluster, os.environ[ADVERTISED_HOST])
        warn_of_settings(cluster, ROOT, say)
        users = None
        if cluster.etcd_tls:
            runs_already = set(cluster.running().values()) - {"etcd"}
            users = partial(set_up_users, cluster, python=venv_python(ROOT), say=say, revoke=not runs_already)
        full = cluster.up(
            lambda down: say(f"starting {', '.join(down)} (logs in {run.logs})" if down else "all of it is running"), users
        )
    say(f"ready in {time.monotonic() - started_at:.1f} s")
    for name, answer in full.items():
        say(f"warning: {name}: {answer}; it serves reads, and other replicas lead (docs/operate/disks.md, A full disk)")
    for address in advertised_host.unreachable(cluster.bootstrap_servers()):
        say(f"warning: programs on this machine cannot connect to {address}, where clients are sent (docs/settings.md)")
    if old := names_running_other_code(cluster):
        say(f"{', '.join(old)} started before this source changed: `make upgrade` restarts them one by one")
    if shape.traces == ZIPKIN_TRACES:
        say(f"traces: http://{shape.zipkin_endpoint()}/zipkin/")
    for protocol, addresses in bootstrap_servers(cluster.listeners().values(), of_nodes=shape.has_nodes).items():
        say(f"{protocol}: {addresses}")
    for line in security_files.for_clients(cluster) if shape.security == SECURED else ():
        say(line)
    say(f"bootstrap.servers={cluster.bootstrap_servers()}")


def shape_of(before: Shape | None, given: argparse.Namespace) -> Shape:
    asked = {field.name: getattr(given, field.name) for field in fields(Shape)}
    asked["nodes"] = given.nodes
    if before is None and asked["roles"] == NODE_ROLES and asked["storage"] is None and given.nodes is None:
        asked["nodes"] = str(min(len(os.sched_getaffinity(0)), MOST_STORAGE))
    return (before or Shape()).with_given(**asked)


def refuse_change(before: Shape, cluster: Cluster) -> None:
    """Storage nodes hold data, so none may vanish; what runs cannot move to other ports, send its traces elsewhere, or be
    protected as it runs. More of each is always welcome.

    What `before` had and what never was started may go: another program had its ports.
    """
    shape, run = cluster.shape, cluster.run
    protection.refuse_change(run, before, shape)
    with_data = run.storage_nodes_with_data()
    if shape.storage < with_data:
        raise LauncherError(
            f"the cluster in {run.path} has data on {with_data} storage nodes: to have {shape.storage}, "
            "empty and remove the others (docs/operate/nodes.md, Remove a storage node), or `make wipe` all of it"
        )
    running = set(cluster.running().values())
    moved = any(getattr(shape, name) != getattr(before, name) for name in ("port", "traces", "security", "roles"))
    if running - cluster.plans.keys() or (running and moved):
        raise LauncherError(
            f"the cluster in {run.path} runs as {before}; `make down` first to have {shape}, or choose another RUN="
        )


def down(run: RunDirectory) -> None:
    cluster = cluster_of(run, shape_to_end(run))
    if not run.holds_cluster() and not cluster.running():
        say(f"no cluster in {run.path}: nothing to stop")
        return
    with run.locked():
        for name in cluster.down():
            say(f"{name} did not stop in time and was killed")
        refuse_unknown_processes(run, "it runs on")
    say(f"stopped; data stays in {run.data}")


def refuse_unknown_processes(run: RunDirectory, outcome: str) -> None:
    """Raises LauncherError if a process is left that uses the data: RUN was moved, or someone else started it."""
    if in_use := ", ".join(map(str, run.directories_in_use())):
        raise LauncherError(
            f"{in_use}: in use by a process that this launcher does not know, so {outcome}; end it, then try again"
        )


def wipe(run: RunDirectory) -> None:
    if not run.path.exists():
        say(f"no cluster in {run.path}: nothing to remove")
        return
    if not run.holds_cluster():
        way_out = lost_shape(run) or "nothing is removed"
        raise LauncherError(f"{run.path} holds no cluster that `make up` made (no cluster.json): {way_out}")
    with run.locked():
        cluster_of(run, shape_to_end(run)).down()
        refuse_unknown_processes(run, "nothing is removed")
        elsewhere = run.log_directories_elsewhere(ROOT)
        left = run.remove(ROOT)
    say(f"stopped, and removed the cluster in {run.path}")
    if left:
        say(f"left, since no process of the cluster made it: {', '.join(map(str, left))}")
    if elsewhere:
        paths = ", ".join(map(str, elsewhere))
        say(f"log directories elsewhere keep their data: {paths} ({LOG_DIRS}); empty them before another cluster is to use them")


def shape_to_end(run: RunDirectory) -> Shape:
    """A damaged shape is in nobody's way: what runs is found by its marks."""
    try:
        return run.read_shape() or Shape()
    except LauncherError:
        return Shape()


def lost_shape(run: RunDirectory) -> str:
    """The way out where processes of a cluster run whose shape is lost, as a sentence. Empty if none runs."""
    names = ", ".join(sorted(set(cluster_of(run, Shape()).running().values())))
    if not names:
        return ""
    return (
        f"{names} of {run.path} run, and what remembered their shape (cluster.json) is lost: `make up` with its options of "
        "before knows them again, and `make down` stops them"
    )


def status(run: RunDirectory, *, as_json: bool) -> bool:
    """Whether the cluster is healthy."""
    shape = run.read_shape()
    if shape is None:
        sentence = lost_shape(run) or f"no cluster in {run.path}; `make up` makes one"
        say(json.dumps({"verdict": "none", "sentence": sentence}) if as_json else sentence)
        return False
    cluster = cluster_of(run, shape)
    statuses = cluster.status()
    health = ask_health(statuses)
    disks = cluster.disks(ROOT)
    if as_json:
        verdict = {"verdict": health.verdict, "sentence": health.sentence, "bootstrap_servers": cluster.bootstrap_servers()}
        processes = [fields_of(each) for each in statuses]
        say(json.dumps({**(health.said or {}), **verdict, "processes": processes, "disks": [asdict(disk) for disk in disks]}))
        return health.verdict == HEALTHY
    say(health.sentence)
    if health.since:
        say(health.since)
    rows = [("NAME", "ROLE", "PID", "READY", "MEMORY", "MAPPED", "ADDRESSES")]
    rows += [row_of(of_one) for of_one in statuses]
    memories = [of_one.memory for of_one in statuses if of_one.memory is not None]
    own, mapped = sum(each.own_bytes for each in memories), sum(each.mapped_bytes for each in memories)
    rows.append(("", "", "", "", mebibytes(own), mebibytes(mapped), "together"))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    if health.details:
        say(health.details)
    for disk in disks:
        say(f"disk of {', '.join(disk.directories)}: {disk.free_bytes / 2**30:.1f} of {disk.total_bytes / 2**30:.1f} GiB free")
    warn_of_unsafe_etcd()
    for line in security_files.for_clients(cluster) if shape.security == SECURED else ():
        say(line)
    say(f"bootstrap.servers={cluster.bootstrap_servers()}")
    return health.verdict == HEALTHY


def warn_of_unsafe_etcd() -> None:
    binary = etcd_binary(ROOT)
    if binary.exists() and not is_safe(version_of(binary)):
        say("WARNING: this etcd can lose committed writes when it is killed (README, *Try it*)")


def backup(run: RunDirectory, file: Path, *, with_credentials: bool) -> None:
    recovery.backup(known_cluster(run), file, with_credentials=with_credentials, python=venv_python(ROOT), root=ROOT, say=say)


def restore(run: RunDirectory, file: Path, users: Path | None) -> None:
    cluster = known_cluster(run)
    users = users or protection.first_users(run, cluster.shape)
    with run.locked():
        recovery.restore(cluster, file, users, python=venv_python(ROOT), root=ROOT, say=say)


def rebuild(run: RunDirectory, file: Path | None, users: Path | None, *, dry_run: bool) -> None:
    cluster = known_cluster(run)
    users = users or protection.first_users(run, cluster.shape)
    with run.locked():
        recovery.rebuild(cluster, file, users, dry_run=dry_run, python=venv_python(ROOT), root=ROOT, say=say)


def upgrade_cluster(run: RunDirectory, *, force: bool) -> None:
    shape = run.read_shape()
    if shape is None:
        raise LauncherError(f"no cluster in {run.path}; `make up` makes one")
    protection.refuse_lost_shape(run, shape, shape)
    set_up(development=False)
    with run.locked():
        cluster = cluster_of(run, shape)
        if shape.security == SECURED and cluster.running():
            security_files.renew(cluster, python=venv_python(ROOT), root=ROOT, say=say)
        has_users = cluster.etcd_tls and cluster.pid_of("etcd") is not None
        if has_users:
            set_up_users(cluster, python=venv_python(ROOT), say=say)  # a role may need more than it did
        upgrade(cluster, say, force=force)
        if has_users and set(cluster.running().values()) <= cluster.plans.keys():
            set_up_users(cluster, python=venv_python(ROOT), say=say, revoke=True)  # or less: the former processes are gone


def from_kafka(run: RunDirectory, given: argparse.Namespace) -> None:
    if given.security not in (None, UNSECURED):
        raise LauncherError(
            "SECURITY=on comes after it, since one of Kafka's directories keeps its own users and ACLs: take it over without, "
            "then `make down` and `make up SECURITY=on` (docs/security.md)"
        )
    set_up(development=False)
    kafka = migration.KafkaDirectories(given.kafka, python=venv_python(ROOT), root=ROOT)
    if given.dry_run:
        migration.refuse_cluster(run)
        say(kafka.dry_run())
        return
    shape = Shape().with_given(port=given.port, storage=str(len(kafka.by_node)))
    with run.locked():
        migration.undo_interrupted(cluster_of(run, shape), ROOT)
    with run.locked():
        if migration.go_on(run, kafka, say):
            return
        migration.refuse_cluster(run)
        migration.take_over(cluster_of(run, shape), kafka, root=ROOT, say=say)


def to_kafka(run: RunDirectory, given: argparse.Namespace) -> None:
    cluster = known_cluster(run)
    with run.locked():
        migration.give_back(
            cluster,
            given.metadata_dirs,
            with_credentials=given.with_credentials,
            python=venv_python(ROOT),
            root=ROOT,
            say=say,
        )


def known_cluster(run: RunDirectory) -> Cluster:
    shape = run.read_shape()
    if shape is None:
        raise LauncherError(f"no cluster in {run.path}: its metadata goes with the log directories of its storage nodes")
    return cluster_of(run, shape)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m services.local", description="Runs a cluster on this machine.")
    commands = parser.add_subparsers(dest="command", required=True)
    setup = commands.add_parser("setup", help="install what is needed to run, and with --dev to test and check")
    setup.add_argument("--dev", action="store_true")
    setup.add_argument("--pipeline", action="store_true", help="install what the pipeline on Spark needs, and nothing else")
    for name, words in (
        ("up", "start what is down"),
        ("down", "stop, keep the data"),
        ("wipe", "stop, remove the data"),
        ("status", "say how the cluster is, and show each process; fails unless it is healthy"),
        ("backup", "save the metadata in a file, while etcd runs"),
        ("restore", "fill a new etcd from such a file, while nothing runs"),
        ("rebuild", "fill a new etcd from what storage nodes hold, while nothing runs"),
        ("upgrade", "restart what runs other code than this checkout's, one process at a time"),
        ("from-kafka", "make a cluster of a stopped Kafka's log directories, in place"),
        ("to-kafka", "have a new Kafka begin with this cluster's metadata and logs, while nothing runs"),
    ):
        command = commands.add_parser(name, help=words)
        command.add_argument("--run", default=DEFAULT_RUN, help=f"the folder of this cluster (default {DEFAULT_RUN})")
        if name == "up":
            for field in fields(Shape):
                command.add_argument(f"--{field.name.replace('_', '-')}", help="default: as before, at first as in Shape")
            command.add_argument("--nodes", help="with --roles=node: how many (default: as before, at first one for each core)")
            command.add_argument("--host", help="the address by which other machines reach this one (default: as before)")
        if name in ("up", "restore", "rebuild"):
            command.add_argument("--add-scram-file", type=_absolute, help="users that a new cluster has, a line for each")
        if name in ("backup", "to-kafka"):
            command.add_argument(
                "--with-credentials", action="store_true", help="with users' SCRAM credentials, in a secret file"
            )
        if name == "upgrade":
            command.add_argument("--force", action="store_true", help="also where the cluster is not healthy")
        if name == "status":
            command.add_argument("--json", action="store_true", help="for programs")
        if name in ("backup", "restore"):
            command.add_argument("file", type=_absolute)
        if name == "rebuild":
            command.add_argument("--backup", type=_absolute, help="a backup, if there is one")
        if name == "from-kafka":
            command.add_argument("--port", help="as for `up`")
            command.add_argument("--security", help="refused: as for `up`, it makes a new cluster")
            command.add_argument("kafka", nargs="+", help="each broker's LOG_DIR,LOG_DIR, or its server.properties")
        if name == "to-kafka":
            command.add_argument("metadata_dirs", nargs="+", help="the formatted metadata.log.dir of each of Kafka's controllers")
        if name in ("rebuild", "from-kafka"):
            command.add_argument("--dry-run", action="store_true", help="only tell what would be done")
    return parser.parse_args(arguments)


def _absolute(given: str) -> Path:
    return Path(given).absolute()


def main(arguments: list[str]) -> int:
    given = parse(arguments)
    place = getattr(given, "run", ROOT)
    asked = getattr(given, "run", DEFAULT_RUN), getattr(given, "port", None)
    try:
        if given.command == "setup" and given.pipeline:
            set_up_for_pipeline()
            return 0
        if given.command == "setup":
            set_up(development=given.dev)
            return 0
        if not given.run:
            raise LauncherError("RUN= is empty: name the folder that the cluster lives in")
        run = RunDirectory(given.run)
        match given.command:
            case "up":
                up(run, given)
            case "down":
                down(run)
            case "wipe":
                wipe(run)
            case "status":
                return 0 if status(run, as_json=given.json) else 1
            case "backup":
                backup(run, given.file, with_credentials=given.with_credentials)
            case "restore":
                restore(run, given.file, given.add_scram_file)
            case "rebuild":
                rebuild(run, given.backup, given.add_scram_file, dry_run=given.dry_run)
            case "upgrade":
                upgrade_cluster(run, force=given.force)
            case "from-kafka":
                from_kafka(run, given)
            case "to-kafka":
                to_kafka(run, given)
    except LauncherError as reason:
        print(f"penstock: {with_given(str(reason), *asked)}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as reason:
        what_to_do = f". Make room, then `make {given.command}` again" if reason.errno == errno.ENOSPC else ""
        what_to_do = with_given(what_to_do, *asked)
        print(f"penstock: {reason.filename or place}: {reason.strerror or reason}{what_to_do}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    if isinstance(sys.stdout, io.TextIOWrapper):  # a locale may lack a character of a path
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(main(sys.argv[1:]))
