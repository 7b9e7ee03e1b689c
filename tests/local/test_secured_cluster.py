"""A cluster that `make up SECURITY=on` made: kcat uses it as it is told to, others are refused, and it stays so."""

import asyncio
import socket
import ssl
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Timer

from cryptography import x509

from libs.cluster import keys
from libs.cluster.etcd.access import ACCESS, ROOT, Access, user_of
from libs.cluster.etcd.etcd_auth import EtcdAuth
from libs.cluster.etcd.etcd_connection import EtcdConnection
from libs.cluster.etcd.etcd_store import EtcdStore
from libs.cluster.store import CreateRevisionIs, Outcome, Put
from libs.local_security.certificates import GATEWAY_FOR
from libs.local_security.etcd_files import secure_etcd
from libs.roles import GATEWAY
from libs.runtime.etcd_store import etcd_tls_of
from services.local import etcd_protection, probe
from services.local.cluster_shape import Shape
from services.local.etcd_protection import settings_of
from services.local.run_directory import RunDirectory
from tests.support.printed_blocks import blocks_of, section_of
from tests.support.requirements import ROOT as REPOSITORY
from tests.support.requirements import require

WITHIN_S = 30


def kcat(*arguments: str, given: str = "") -> str:
    return subprocess.run(
        ["kcat", *arguments], input=given, capture_output=True, encoding="utf-8", timeout=WITHIN_S, check=True
    ).stdout


def complaint(words: str, *arguments: str) -> bool:
    """Whether kcat says so before it gives up. It is ended as soon as it does."""
    process = subprocess.Popen(["kcat", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    late = Timer(WITHIN_S, process.kill)
    late.start()
    with process:
        assert process.stdout is not None
        heard = any(words in line for line in process.stdout)
        process.kill()
    late.cancel()
    return heard


def is_refused_without_certificate(address: str) -> bool:
    """Whether TLS ends before a byte is answered, for somebody who trusts anybody."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port)), timeout=WITHIN_S) as connected:
        try:
            with context.wrap_socket(connected) as etcd:
                etcd.sendall(b"GET /version HTTP/1.1\r\nHost: etcd\r\n\r\n")
                return not etcd.recv(1)
        except (ssl.SSLError, ConnectionError):
            return True


def age(folder: Path) -> None:
    """Certificates of etcd as they are 20 days before their end."""
    assert secure_etcd(folder, etcd_protection.USERS, datetime.now(UTC) - GATEWAY_FOR + timedelta(days=20), runs=True)
    assert {days_left(file) < 21 for file in folder.glob("etcd-penstock-*.pem")} == {True}


def days_left(file: Path) -> float:
    certificate = x509.load_pem_x509_certificates(file.read_bytes())[0]
    return (certificate.not_valid_after_utc - datetime.now(UTC)) / timedelta(days=1)


def gateway_writes(run: RunDirectory, shape: Shape, table: Mapping[str, Access] | None = None) -> Outcome:
    """What etcd says to a gateway that would write a topic, after its users were set up by a table, if there is one. The write
    compares in vain, so nothing is written."""

    async def ask() -> Outcome:
        if table is not None:
            connection = EtcdConnection([shape.etcd_endpoint()], etcd_tls_of(settings_of(run, ROOT)), WITHIN_S)
            await EtcdAuth(connection).set_up(table, lambda line: None)
            await connection.close()
        tls = etcd_tls_of(settings_of(run, user_of(GATEWAY)))
        store = EtcdStore([shape.etcd_endpoint()], tls=tls, timeout_s=WITHIN_S)
        try:
            key = keys.topic("in-vain")
            return (await store.txn([CreateRevisionIs(key, 1)], [Put(key, b"")])).outcome
        finally:
            await store.close()

    return asyncio.run(ask())


def test_one_word_protects_a_cluster_and_neither_a_restart_nor_a_lost_file_ends_it(penstock, tmp_path: Path) -> None:
    require("kcat")
    run, bootstrap = tmp_path / "run", f"127.0.0.1:{penstock.port}"
    printed = penstock("up", f"--port={penstock.port}", "--storage=1", "--security=on")
    assert printed[-1] == f"bootstrap.servers={bootstrap}"
    client = ("-F", f"{run}/security/kcat.conf")
    assert f"as in kcat {' '.join(client)} -L" in "\n".join(printed)
    kcat(*client, "-P", "-t", "orders", "-p", "0", given="order 1\n")

    former = (run / "security" / "etcd-ca.pem").read_bytes()
    (run / "security" / "etcd-ca.key").unlink()
    assert any("etcd-ca.key is lost" in line for line in penstock("up"))
    penstock("down")
    (run / "places.json").unlink(missing_ok=True)
    (run / "cluster.json").unlink()
    (refusal,) = penstock("up", f"--port={penstock.port}", "--storage=1", succeeds=False)
    assert "was made with SECURITY=on" in refusal
    RunDirectory(run).write_shape(Shape(penstock.port, storage=1))  # as a version does that knows no SECURITY
    (refusal,) = penstock("up", succeeds=False)
    assert "an older version started it without" in refusal
    penstock("up", "--security=on")
    assert (run / "security" / "etcd-ca.pem").read_bytes() != former, "the steps of the page"
    page = (REPOSITORY / "docs" / "security.md").read_text(encoding="utf-8")
    (block,) = blocks_of(section_of(page, "A lost authority of etcd"))
    assert block.text.splitlines() == ["make down", "rm -f .run/security/etcd-ca.key", "make up"]
    assert "SECURITY=off would let everybody do everything" in penstock("up", "--security=off", succeeds=False)[0]
    assert penstock("up")[0] == "all of it is running"
    assert not [log.name for log in run.glob("logs/*.log") if "etcd refuses a call" in log.read_text(encoding="utf-8")]
    shape = RunDirectory(run).read_shape()
    assert shape is not None
    assert is_refused_without_certificate(shape.etcd_endpoint())
    assert penstock("status")[0] == "healthy"
    assert probe.ask(Shape(penstock.port).admin_port("storage", 1), "/health", timeout_s=5.0)[0] is False, "it needs the token"

    assert kcat(*client, "-C", "-q", "-t", "orders", "-p", "0", "-e") == "order 1\n"
    age(run / "security")
    wider = {**ACCESS, GATEWAY: Access((), (keys.PREFIX,))}
    assert gateway_writes(RunDirectory(run), shape, wider) is Outcome.CONFLICT
    assert penstock("upgrade")[-1].startswith("etcd serves users only: ")
    assert {days_left(file) > 300 for file in (run / "security").glob("etcd-penstock-*.pem")} == {True}
    assert gateway_writes(RunDirectory(run), shape) is Outcome.DENIED, "no process of a former version needs it"
    assert complaint("Disconnected while requesting ApiVersion", "-L", "-b", bootstrap)
    assert complaint("Authentication failed", *client, "-L", "-X", "sasl.password=wrong")


def test_a_cluster_that_began_without_is_protected_by_one_word_and_a_restart(penstock, tmp_path: Path) -> None:
    require("kcat")
    run, bootstrap = tmp_path / "run", f"127.0.0.1:{penstock.port}"
    penstock("up", f"--port={penstock.port}", "--storage=1")
    kcat("-b", bootstrap, "-P", "-t", "orders", "-p", "0", given="order 1\n")
    assert "`make down` first" in penstock("up", "--security=on", succeeds=False)[-1].replace(f" RUN={run}", "")
    shape = RunDirectory(run).read_shape()
    (run / "cluster.json").unlink()
    for command in ("status", "wipe"):
        (sentence,) = penstock(command, succeeds=False)
        assert "storage-1" in sentence
        assert "cluster.json) is lost: `make up" in sentence
        assert "stops them" in sentence
    assert shape is not None
    RunDirectory(run).write_shape(shape)
    penstock("down")
    printed = "\n".join(penstock("up", "--security=on"))
    assert f"set the passwords of admin from {run}/security/first-users" in printed
    assert "clients of before are refused from now on" in printed
    assert kcat("-F", f"{run}/security/kcat.conf", "-C", "-q", "-t", "orders", "-p", "0", "-e") == "order 1\n"
    assert complaint("Disconnected while requesting ApiVersion", "-L", "-b", bootstrap)
