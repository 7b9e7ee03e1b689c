"""`penstock dev` as a user starts it: what it serves, how it ends, what stays, and what it says of mistakes."""

import json
import re
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from libs.runtime.peer_tls import PeerCertificate
from libs.telemetry.tracing.exporting.export_meters import ExportMeters
from services.dev.command_line import log_settings_of, parse, settings_of
from services.dev.data_folder import open_data_folder
from services.dev.settings import WrongSetting
from tests.dev.clients import administrator, consume, create_topic, produce, topic_config, transactional_producer
from tests.dev.command import refused, running
from tests.docs.metrics_page import STORE, definitions, exposed, process_metrics
from tests.support.polling import eventually


def test_a_client_gets_its_records_through(short_dir: Path) -> None:
    with running(short_dir) as command:
        produce(command.bootstrap_servers, "lines", [b"1", b"2", b"3"])
        assert sorted(consume(command.bootstrap_servers, "lines", 3)) == [b"1", b"2", b"3"]


def test_a_reader_of_committed_records_sees_no_aborted_ones(short_dir: Path) -> None:
    with running(short_dir) as command:
        create_topic(command.bootstrap_servers, "payments")
        producer = transactional_producer(command.bootstrap_servers, "teller")
        producer.begin_transaction()
        producer.produce("payments", b"aborted")
        producer.abort_transaction()
        producer.begin_transaction()
        producer.produce("payments", b"committed")
        producer.commit_transaction()
        assert consume(command.bootstrap_servers, "payments", 1, isolation_level="read_committed") == [b"committed"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_of_both_protocols_read(short_dir: Path, protocol: str) -> None:
    with running(short_dir) as command:
        produce(command.bootstrap_servers, "lines", [b"1"])
        assert consume(command.bootstrap_servers, "lines", 1, group_protocol=protocol) == [b"1"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly_and_nothing_is_left(short_dir: Path, number: signal.Signals) -> None:
    with running(short_dir) as command:
        produce(command.bootstrap_servers, "lines", [b"1"])
        assert command.end(number) == 0
        assert command.logged == ""
        assert [path.name for path in short_dir.iterdir()] == ["stderr"]


def test_two_at_a_time_share_nothing(short_dir: Path) -> None:
    with running(short_dir / "a") as one, running(short_dir / "b") as other:
        produce(one.bootstrap_servers, "lines", [b"one"])
        produce(other.bootstrap_servers, "lines", [b"other"])
        assert consume(one.bootstrap_servers, "lines", 1) == [b"one"]
        assert consume(other.bootstrap_servers, "lines", 1) == [b"other"]


def test_the_admin_port_shows_all_services(short_dir: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with running(short_dir, "--admin-port", str(port)) as command:
        produce(command.bootstrap_servers, "lines", [b"1"])

        def page(path: str, accept: str = "*/*") -> str:
            asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Accept": accept})
            with urllib.request.urlopen(asked, timeout=10) as answer:
                return str(answer.read().decode())

        assert page("/readyz") == "ready\n"
        eventually(lambda: json.loads(page("/health"))["verdict"] == "healthy")
        served = re.findall(r"^# TYPE (\S+) ", page("/metrics"), re.MULTILINE)
        assert sorted(served) == sorted(["target_info", *metric_names()])
        read = text_string_to_metric_families(page("/metrics", "application/openmetrics-text"))  # type: ignore[no-untyped-call]
        assert len({family.name for family in read}) == len(served), "a strict reader takes all of it"
        assert "/debug/partitions" in json.loads(page("/debug"))
        assert json.loads(page("/debug/quotas")) == []
        assert "penstock_quota_manager_elected 1.0" in page("/metrics")


def metric_names() -> Iterator[str]:
    """The names of docs/operate/metrics.md, but for those of other processes, of exporters, since nothing is exported, and of
    certificates between processes, since there is one process."""
    absent = (*ExportMeters.definitions.values(), *PeerCertificate.definitions.values())
    for service, metrics in definitions().items():
        if service not in (STORE, "pipeline"):
            yield from (exposed(metric) for metric in metrics if metric not in absent)
    for name, (kind, _, _) in process_metrics().items():
        yield f"{name}_total" if kind == "counter" else name


def test_a_broker_config_is_in_force(short_dir: Path) -> None:
    with running(short_dir, "--broker-config", "num.partitions=3", "--broker-config", "log.retention.hours=1") as command:
        produce(command.bootstrap_servers, "lines", [b"1"])
        topics = administrator(command.bootstrap_servers).list_topics(timeout=10).topics
        assert len(topics["lines"].partitions) == 3
        assert topic_config(command.bootstrap_servers, "lines", "retention.ms") == "3600000"


LISTENER = ("--sasl-listener", "SASL_PLAINTEXT://127.0.0.1:9192")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--port", "x"], "--port is 'x'; expected 0 to 65534"),
        (["--port", "65535"], "--port is '65535'; expected 0 to 65534"),
        (["--port", "-1"], "--port is '-1'; expected 0 to 65534"),
        (["--admin-port", "70000"], "--admin-port is '70000'; expected 0 to 65535"),
        (["--host", "0.0.0.0"], "--host is 0.0.0.0, and no client can connect to that; expected --advertised-host as well"),
        (["--host", ""], "--host is empty; expected the name or address of a host"),
        (["--data", " "], "--data is empty; expected a folder"),
        (["--data", "/proc/none"], "--data is '/proc/none', which cannot be used"),
        (["--log-level", "loud"], "--log-level is 'loud'; expected trace, debug, info, warning or error"),
        (["--broker-config", "retention"], "--broker-config is 'retention'; expected NAME=VALUE"),
        (["--broker-config", "no.such=1"], "--broker-config no.such=1: Unknown broker config name: no.such"),
        (["--broker-config", "log.retention.hours=x"], "--broker-config log.retention.hours=x: Invalid value x"),
        (["--broker-config", "log.dirs=/x"], "--broker-config log.dirs=/x: log.dirs is decided by settings of processes"),
        (["--sasl-listener", "127.0.0.1:9192"], "--sasl-listener: "),
        (["--sasl-listener", "SASL_SSL://x"], "--sasl-listener: SASL_SSL is not served here: only SASL_PLAINTEXT"),
        (["--sasl-enabled-mechanisms", "PLAIN"], "--sasl-enabled-mechanisms and --sasl-plain-without-tls need --sasl-listener"),
        ([*LISTENER, "--sasl-enabled-mechanisms", "PLAIN"], "--sasl-plain-without-tls=true allows it"),
        (["--add-scram", "alice:alice-secret"], "--add-scram: expected SCRAM-SHA-256=[name=USER,password=PASSWORD]"),
        (["--add-scram-file", "/proc/none"], "--add-scram-file: /proc/none cannot be read"),
    ],
)
def test_a_mistake_is_said_in_one_sentence(arguments: list[str], sentence: str) -> None:
    with pytest.raises(WrongSetting) as said:
        open_data_folder_of(arguments)
    assert sentence in str(said.value)


def open_data_folder_of(arguments: list[str]) -> None:
    """What the command does before it starts anything."""
    given = parse(arguments)
    log_settings_of(given)
    open_data_folder(settings_of(given).data)


def test_the_command_says_a_mistake_and_nothing_else() -> None:
    assert refused("--port", "x") == "penstock dev: --port is 'x'; expected 0 to 65534\n"
    assert "unrecognized arguments: --nodes 3" in refused("--nodes", "3")


def test_a_taken_port_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = refused("--port", str(port))
    assert f"port {port} or {port + 1} of 127.0.0.1 is taken; choose another by --port" in said
    assert len(said.splitlines()) == 1


def test_the_admin_port_asks_for_the_token_that_is_set(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (short_dir / "token").write_text("a-token-of-many-letters\n", encoding="utf-8")
    monkeypatch.setenv("PENSTOCK_ADMIN_TOKEN_FILE", str(short_dir / "token"))
    with running(short_dir, "--admin-port", str(port)):
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/health")
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(asked, timeout=10)
        asked.add_header("Authorization", "Bearer a-token-of-many-letters")
        with urllib.request.urlopen(asked, timeout=10) as answer:
            assert answer.status == 200
    monkeypatch.setenv("PENSTOCK_ADMIN_TOKEN_FILE", str(short_dir / "nothing"))
    assert "no admin token in" in refused("--port", "0", "--admin-port", "0")


def test_a_taken_admin_port_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = refused("--port", "0", "--admin-port", str(port))
    assert f"port {port} of 127.0.0.1 is taken; choose another by --admin-port, or a free one by --admin-port 0" in said
    assert "Traceback" not in said
    assert said.count("level=error") == 1  # on a busy machine it may warn of a lease that ran out meanwhile


def test_a_data_folder_that_is_in_use_is_named(short_dir: Path) -> None:
    data = short_dir / "data"
    with running(short_dir / "temporary", "--data", str(data)):
        assert f"--data is {str(data)!r}, which another penstock dev uses" in refused("--port", "0", "--data", str(data))
