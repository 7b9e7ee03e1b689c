"""`pip install penstock` in a project that has packages called `libs` and `services` itself."""

import re
import signal
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.deploy.package.conftest import Installation

EXTRAS = ("controller", "storage", "gateway", "group-coordinator", "transaction-coordinator", "quota-manager")
SAMPLE = """\
import libs
import services
from confluent_kafka import Consumer, Producer


def round_trip(servers):
    producer = Producer({"bootstrap.servers": servers})
    producer.produce("orders", b"hello")
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    message = consumer.poll(30)
    consumer.close()
    return message.value()


def test_orders(penstock_cluster):
    assert round_trip(penstock_cluster.bootstrap_servers) == b"hello"


def test_other_orders(penstock_session_cluster):
    assert round_trip(penstock_session_cluster.bootstrap_servers) == b"hello"


def test_own_packages_are_the_projects():
    assert libs.OWNER == services.OWNER == "the user"
"""


@pytest.fixture(scope="module")
def project(installation: Installation) -> Path:
    """The sample project, in which the names of Penstock's packages are taken."""
    for name in ("libs", "services"):
        (installation.project / name).mkdir()
        (installation.project / name / "__init__.py").write_text('OWNER = "the user"\n', encoding="utf-8")
    (installation.project / "test_orders.py").write_text(SAMPLE, encoding="utf-8")
    return installation.project


def test_the_wheel_takes_no_name_but_its_own(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"penstock"}


def test_the_command_runs_a_cluster(installation: Installation, project: Path) -> None:
    with subprocess.Popen(
        [installation.bin / "penstock", "dev", "--port", "0"],
        cwd=project,
        env=installation.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        announced = re.fullmatch(r"bootstrap\.servers=(\S+)\n", process.stdout.readline())
        assert announced is not None, process.stderr.read()
        code = f"import test_orders; print(test_orders.round_trip({announced[1]!r}))"
        assert installation.ran([str(installation.bin / "python"), "-c", code]).stdout == "b'hello'\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert process.stderr.read() == ""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_fixtures_work_in_a_users_project(installation: Installation, project: Path, workers: str) -> None:
    pytest_of_user = [str(installation.bin / "python"), "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"]
    ended = installation.run([*pytest_of_user, "-n", workers])
    assert "3 passed" in ended.stdout, ended.stdout + ended.stderr


def test_a_service_without_its_extra_says_how_to_install_it(installation: Installation) -> None:
    said = installation.run([str(installation.bin / "penstock"), "gateway"])
    assert said.returncode == 1
    assert (
        said.stderr
        == "penstock gateway: the package grpc is not installed; install the wheel or checkout with its extra [gateway]\n"
    )


@pytest.mark.parametrize("extra", EXTRAS)
def test_each_extra_runs_its_service(installation: Installation, extra: str) -> None:
    assert "does not provide the extra" not in installation.install(extra)
    said = installation.run([str(installation.bin / "penstock"), extra])
    role = extra.replace("-", "_")
    assert said.returncode == 1
    assert said.stderr == f"{role}: PENSTOCK_NODE_ID is not set (nor node_id in the file that PENSTOCK_CONFIG names)\n"
    assert "docs/settings.md" in installation.ran([str(installation.bin / "penstock"), extra, "--help"]).stdout
