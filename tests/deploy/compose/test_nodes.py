"""compose.nodes.yaml, as Compose and the services read it. No container runs."""

import json
import os
from typing import Any

import pytest

from services.node.config import read_node_config
from tests.deploy.compose.compose_project import ComposeProject
from tests.deploy.compose.docker_daemon import DockerDaemon

NODES = "compose.nodes.yaml"
OF_THE_IMAGE = {"PENSTOCK_DATA_DIR": "/var/lib/penstock", "PENSTOCK_ADMIN_HOST": "0.0.0.0", "PENSTOCK_ADMIN_PORT": "9600"}

Services = dict[str, dict[str, Any]]


def services_of(docker: DockerDaemon, file: str, **given: str) -> Services:
    project = ComposeProject(docker, file, first_port=9092, brokers=3)
    services: Services = json.loads(project.run("config", "--format", "json", environment=given))["services"]
    return services


def test_nodes_take_the_place_of_storage_nodes_and_of_their_clients_gateway(docker: DockerDaemon) -> None:
    separate, nodes = [services_of(docker, file) for file in ("compose.yaml", NODES)]
    placed = {f"node-{number}": f"storage-{number}" for number in (1, 2, 3)}
    assert nodes.keys() - separate.keys() == placed.keys()
    assert separate.keys() - nodes.keys() == {*placed.values(), "gateway"}
    for node, storage in placed.items():
        assert nodes[node]["volumes"] == separate[storage]["volumes"], "the roles change, and the data stays"
    gateways = [each["environment"]["PENSTOCK_NODE_ID"] for name, each in nodes.items() if name in (*placed, "gateway-internal")]
    assert sorted(gateways) == ["1", "2", "3", "4"]


@pytest.mark.parametrize("prefix", ["909", "1909"])
def test_each_node_takes_its_settings_and_publishes_the_port_of_its_broker(
    docker: DockerDaemon, monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    monkeypatch.setattr("libs.runtime.process.logs.configure", lambda *_: None)
    for name in [name for name in os.environ if name.startswith(("PENSTOCK_", "OTEL_"))]:
        monkeypatch.delenv(name)
    services = services_of(docker, NODES, PENSTOCK_PORT_PREFIX=prefix, PENSTOCK_ADVERTISED_HOST="kafka.example")
    for number in (1, 2, 3):
        for name, value in {**OF_THE_IMAGE, **services[f"node-{number}"]["environment"]}.items():
            monkeypatch.setenv(name, value)
        storage, gateway, _ = read_node_config()
        assert storage.node_id == gateway.node_id == number
        assert (storage.rpc_tcp, gateway.rpc_tcp) == ("0.0.0.0:9300", "0.0.0.0:9301")
        assert storage.rpc_advertised_host == gateway.rpc_advertised_host == f"node-{number}"
        assert (gateway.advertised_host, gateway.advertised_port_base) == ("kafka.example", 0)
        [port] = services[f"node-{number}"]["ports"]
        assert port["target"] == int(port["published"]) == gateway.port_base + number == int(f"{prefix}{2 + number}")
        assert port["host_ip"] == "127.0.0.1"


@pytest.mark.parametrize("over", ["sasl", "tls", "peers.tls", "etcd.tls", "admin"])
def test_a_file_that_protects_containers_is_refused_where_there_are_none(docker: DockerDaemon, over: str) -> None:
    refused = docker.attempt("compose", "--file", NODES, "--file", f"compose.{over}.yaml", "config")
    assert refused.returncode != 0
    assert "has neither an image nor a build context" in refused.stderr
