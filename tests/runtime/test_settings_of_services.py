"""Each service says in one line what is wrong with its settings."""

import logging
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from libs.cluster.image import ClusterImage
from libs.cluster.memory.memory_store import MemoryStore
from libs.rpc.server.rpc_server import RpcServer
from libs.rpc.transport.socket_transport import SocketTransport
from libs.runtime import process
from libs.runtime.process import Identity
from libs.runtime.registration import Registration
from libs.runtime.service_config import ServiceConfig
from libs.runtime.setting_names import NAMES, unknown
from libs.runtime.tracing import process_tracing
from libs.runtime.tracing.trace_settings import NONE
from services.local.given_settings import OF_TESTS, known_settings

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("service", ["controller", "gateway", "group_coordinator", "storage"])
def test_a_service_without_its_settings_says_which_and_exits(service: str) -> None:
    ended = subprocess.run([sys.executable, "-m", f"services.{service}"], cwd=ROOT, env={}, capture_output=True, encoding="utf-8")
    assert ended.returncode == 1
    assert ended.stderr == (f"{service}: PENSTOCK_NODE_ID is not set (nor node_id in the file that PENSTOCK_CONFIG names)\n")


def test_an_address_that_nobody_can_connect_to_is_refused_unless_another_one_is_advertised() -> None:
    for everywhere in ("0.0.0.0:9300", "[::]:9300"):
        alone = ServiceConfig(node_id=1, etcd=("h:1",), data_dir="/d", rpc_tcp=everywhere)
        assert "PENSTOCK_RPC_ADVERTISED_HOST" in str(alone.problem())
        assert replace(alone, rpc_advertised_host="storage-1").problem() is None
        assert replace(alone, silence_s=12.5).lease_s >= 13, "a process that may be silent keeps its registration meanwhile"


async def test_a_process_registers_the_host_that_it_advertises() -> None:
    identity = Identity("storage", 1, 1, "host", "test")
    server = RpcServer(lambda: identity.hello(ClusterImage()), {}, transport=SocketTransport())
    registration = Registration(server, identity.member(), MemoryStore(), 3, die=lambda error: None)
    await registration.listen(
        ServiceConfig(node_id=1, etcd=(), data_dir="/d", rpc_tcp="127.0.0.1:0", rpc_advertised_host="storage-1.example.net")
    )
    host, _, port = registration.member.tcp_address.rpartition(":")
    assert host == "tcp:storage-1.example.net"
    assert int(port) > 0
    await server.close()


def test_the_names_of_all_settings_are_those_of_the_page() -> None:
    page = known_settings(ROOT) - set(OF_TESTS)
    assert {f"PENSTOCK_{name.upper()}" for name in NAMES} == page
    assert list(unknown([*page, *OF_TESTS, "HOME"])) == []


def test_a_process_warns_of_a_variable_that_no_service_knows(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(process.logs, "configure", lambda *arguments: None)
    for name, value in (("NODE_ID", "1"), ("ETCD", "h:1"), ("DATA_DIR", "/d"), ("LOG_DIR", "/l"), ("RACK", "a"), ("QQQ", "1")):
        monkeypatch.setenv(f"PENSTOCK_{name}", value)
    monkeypatch.setenv("PENSTOCK_SSL_CRL_LOCATION", "")  # an empty one asks for nothing
    with caplog.at_level(logging.WARNING):
        process.read_config(ServiceConfig, "storage")
    assert caplog.messages == ["there is no such setting"] * 2
    told = [record.__dict__["fields"] for record in caplog.records]
    assert [(line["variable"], line["did_you_mean"]) for line in told] == [
        ("PENSTOCK_LOG_DIR", "PENSTOCK_LOG_DIRS"),
        ("PENSTOCK_QQQ", ""),
    ]


def test_a_variable_of_opentelemetry_that_is_meant_for_others_ends_no_process(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(process.logs, "configure", lambda *arguments: None)
    for name, value in (("NODE_ID", "1"), ("ETCD", "h:1"), ("DATA_DIR", "/d")):
        monkeypatch.setenv(f"PENSTOCK_{name}", value)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "xray")
    with caplog.at_level(logging.WARNING):
        process.read_config(ServiceConfig, "storage")
    assert caplog.messages == ["a variable of OpenTelemetry is not heeded"]
    told = caplog.records[0].__dict__["fields"]
    assert told["reason"].startswith("OTEL_TRACES_SAMPLER is 'xray'; expected one of")
    assert told["instead"] == "it counts as unset"


def test_an_exporter_of_opentelemetry_needs_no_sdk_unless_a_setting_of_ours_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_tracing, "find_spec", lambda name: None)
    config = ServiceConfig(node_id=1, etcd=(), data_dir="/d")
    found = process_tracing.read_trace_settings(config, {"OTEL_TRACES_EXPORTER": "otlp"})
    assert (found.exporter, [each.instead for each in found.not_heeded]) == (NONE, ["nothing is exported"])
    with pytest.raises(ValueError, match="OpenTelemetry's SDK is not installed"):
        process_tracing.read_trace_settings(replace(config, trace_exporter="otlp"), {})
