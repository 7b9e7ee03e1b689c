"""The settings of a node: each of its services reads its own, of one environment."""

from pathlib import Path

import pytest

from services.node.config import read_node_config


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr("libs.runtime.process.logs.configure", lambda *arguments: None)
    given = {"NODE_ID": "2", "ETCD": "h:1", "DATA_DIR": "/data", "PORT_BASE": "9092", "RPC_UNIX": "/run/node-2.sock"}
    for name, value in given.items():
        monkeypatch.setenv(f"PENSTOCK_{name}", value)
    return monkeypatch


def test_the_gateway_has_a_directory_and_addresses_beside_its_storage_node(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("PENSTOCK_RPC_TCP", "127.0.0.1:9300")
    storage, gateway, _ = read_node_config()
    assert (storage.data_dir, gateway.data_dir) == ("/data", "/data/gateway")
    assert (storage.rpc_unix, gateway.rpc_unix) == ("/run/node-2.sock", "/run/node-2.sock.gateway")
    assert (storage.rpc_tcp, gateway.rpc_tcp) == ("127.0.0.1:9300", "")
    assert (storage.node_id, gateway.node_id) == (2, 2)
    assert (storage.lease_s, gateway.lease_s) == (10, 2), "each keeps its own default"
    environment.setenv("PENSTOCK_GATEWAY_RPC_TCP", "127.0.0.1:9301")
    environment.setenv("PENSTOCK_GATEWAY_RPC_UNIX", "/run/gateway-2.sock")
    _, gateway, _ = read_node_config()
    assert (gateway.rpc_unix, gateway.rpc_tcp) == ("/run/gateway-2.sock", "127.0.0.1:9301")


def test_a_file_may_have_the_settings_of_both_and_no_others(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    environment.setenv("PENSTOCK_CONFIG", str(file))
    file.write_text('volume_stamp_s = 20.0\nidle_s_max = 30.0\ngateway_rpc_tcp = "127.0.0.1:9301"\n', encoding="utf-8")
    storage, gateway, _ = read_node_config()
    assert (storage.volume_stamp_s, gateway.idle_s_max, gateway.rpc_tcp) == (20.0, 30.0, "127.0.0.1:9301")
    file.write_text("idle_max = 30.0\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="unknown key 'idle_max'"):
        read_node_config()


def test_a_wrong_setting_of_the_gateway_ends_the_node(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("PENSTOCK_PORT_BASE", "0")
    with pytest.raises(SystemExit, match="node: PENSTOCK_PORT_BASE is 0"):
        read_node_config()
