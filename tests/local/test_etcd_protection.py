"""TLS and users of the etcd of SECURITY=on: its plan, and a cluster that began without."""

import asyncio
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.etcd.access import ACCESS, ROOT, user_of
from libs.cluster.etcd.etcd_store import EtcdStore
from libs.cluster.records import Member
from libs.cluster.store import KeyValue, Outcome, Put
from libs.local_security.etcd_files import secure_etcd
from libs.roles import CONTROLLER, GATEWAY, STORAGE
from libs.runtime.etcd_store import etcd_tls_of
from services.local import etcd_protection
from services.local.cluster import Cluster
from services.local.cluster_plan import health_port, plan_cluster
from services.local.cluster_shape import SECURED, Shape
from services.local.etcd_setup import etcd_binary
from services.local.etcd_users import set_up_users
from services.local.processes import write_pid
from services.local.python_setup import venv_python
from services.local.run_directory import RunDirectory
from tests.support.ports import reserve_ports
from tests.support.requirements import ROOT as REPOSITORY
from tests.support.requirements import require


def cluster_in(run: RunDirectory, shape: Shape) -> Cluster:
    return Cluster(shape, run, root=REPOSITORY, python=venv_python(REPOSITORY), etcd=etcd_binary(REPOSITORY))


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    run = RunDirectory(tmp_path)
    run.create()
    run.security.mkdir()
    secure_etcd(run.security, etcd_protection.USERS, datetime.now(UTC))
    return run


def test_the_launcher_names_users_as_the_table_does() -> None:
    assert set(etcd_protection.USERS) == {ROOT, *map(user_of, ACCESS)}


def test_each_service_has_the_certificate_of_its_role(run: RunDirectory) -> None:
    shape = Shape(security=SECURED)
    plans = plan_cluster(shape, run, python=Path("python"), etcd=Path("etcd"), etcd_tls=True)
    for plan in plans:
        if plan.is_service:
            own = plan.environment["PENSTOCK_ETCD_CERT_FILE"]
            assert own == plan.environment["PENSTOCK_ETCD_KEY_FILE"] == f"{run.security}/etcd-{user_of(plan.role)}.pem"
            assert Path(own).is_file()
    ports = [port for plan in plans for port in plan.ports]
    assert len(ports) == len(set(ports))
    etcd = plans[0]
    assert not any("http://" in argument for argument in etcd.argv if "metrics" not in argument)
    assert health_port(etcd.argv) == etcd.probe_port


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["etcd", "--listen-client-urls=http://127.0.0.1:9142"], 9142),
        (["etcd", "--listen-client-urls=https://127.0.0.1:9142", "--listen-metrics-urls=http://127.0.0.1:9139"], 9139),
        (["python"], None),
    ],
)
def test_an_etcd_is_asked_for_its_health_where_it_tells_it(argv: list[str], expected: int | None) -> None:
    assert health_port(argv) == expected


@pytest.mark.parametrize(
    ("name", "argument", "tls"),
    [
        ("etcd", "--listen-client-urls=http://127.0.0.1:1", False),
        ("etcd", "--listen-client-urls=https://127.0.0.1:1", True),
        ("gateway-1", "", False),
        ("zipkin", "", True),
    ],
)
def test_what_runs_without_tls_keeps_etcd_so(run: RunDirectory, name: str, argument: str, tls: bool) -> None:
    shape = Shape(security=SECURED)
    assert etcd_protection.has_tls(shape, run)
    assert not etcd_protection.has_tls(Shape(), run)
    waits = "import sys; print(flush=True); sys.stdin.read()"
    argv = [sys.executable, "-c", waits, str(run.path), argument]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={}) as process:
        assert process.stdout is not None
        process.stdout.readline()
        write_pid(run.pid_file(name), process.pid)
        assert etcd_protection.has_tls(shape, run) == tls
        assert etcd_protection.runs_with_tls(run) == (name == "etcd" and tls)
        (run.security / "etcd.pem").rename(run.security / "lost")
        assert etcd_protection.has_tls(shape, run) == (name == "etcd" and tls)
        (run.security / "lost").rename(run.security / "etcd.pem")
        assert process.stdin is not None
        process.stdin.close()
    assert etcd_protection.has_tls(shape, run), "it has ended"


def test_without_certificates_there_is_no_tls(tmp_path: Path) -> None:
    assert not etcd_protection.has_tls(Shape(security=SECURED), RunDirectory(tmp_path))


def as_user(run: RunDirectory, shape: Shape, user: str | None, key: str, value: bytes | None = None) -> KeyValue | None:
    """Writes a key if it gets a value, and reads it, as a user of etcd. None: no user, and no TLS."""

    async def work() -> KeyValue | None:
        tls = etcd_tls_of(etcd_protection.settings_of(run, user)) if user is not None else None
        store = EtcdStore([shape.etcd_endpoint()], tls=tls, timeout_s=20)
        try:
            if value is not None:
                assert (await store.txn([], [Put(key, value)])).outcome is Outcome.OK
            return await store.get(key)
        finally:
            await store.close()

    return asyncio.run(work())


def test_an_etcd_that_began_without_tls_keeps_its_data_and_gets_tls_and_users(run: RunDirectory) -> None:
    require("etcd")
    reservation = reserve_ports(100)
    shape = Shape(reservation.first, security=SECURED)
    certificate = run.security / "etcd.pem"
    content = certificate.read_bytes()
    certificate.unlink()
    former = cluster_in(run, shape)
    try:
        former.start("etcd")
        former.wait_ready(["etcd"])
        as_user(run, shape, None, keys.CLUSTER_ID, b"before")
        certificate.write_bytes(content)
        assert not cluster_in(run, shape).etcd_tls
        former.down()

        secured, told = cluster_in(run, shape), []
        assert secured.etcd_tls
        secured.start("etcd")
        secured.wait_ready(["etcd"])
        for _ in range(2):
            set_up_users(secured, python=venv_python(REPOSITORY), say=told.append)
        assert len(told) == 1, "the second time changes nothing"
        late = Member(STORAGE, 7, 1, "host", version="0.0.9")
        as_user(run, shape, user_of(CONTROLLER), keys.member(STORAGE, 7), encode(late))
        set_up_users(secured, python=venv_python(REPOSITORY), say=told.append, revoke=True)
        assert told[1].startswith("no permission is taken away, since processes are registered that may need others ")
        assert ": storage 7 (0.0.9). " in told[1]
        for role in (CONTROLLER, STORAGE, GATEWAY):
            stored = as_user(run, shape, user_of(role), keys.CLUSTER_ID)
            assert stored is not None
            assert stored.value == b"before"
        with pytest.raises(AssertionError):
            as_user(run, shape, user_of(GATEWAY), keys.CLUSTER_ID, b"after")
        secured.down()
    finally:
        former.down()
        reservation.release()
