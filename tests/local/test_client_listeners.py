"""Listeners of gateways beside the first one: their ports, and that `make up` remembers them."""

import re
from pathlib import Path

import pytest

from services.local import __main__ as local
from services.local.client_listeners import (
    AUTHORIZER,
    BOUNDS,
    bootstrap_servers,
    of_gateway,
    refuse_ports_of_others,
    remembered_in,
)
from services.local.cluster import Cluster
from services.local.cluster_shape import Shape
from services.local.errors import LauncherError
from services.local.given_settings import refuse_unknown
from services.local.run_directory import ADVERTISED_HOST, LISTEN_HOST, RunDirectory
from tests.support.requirements import ROOT

LISTENER, ADVERTISED = "PENSTOCK_SASL_LISTENER", "PENSTOCK_SASL_ADVERTISED_LISTENER"
MECHANISMS = "PENSTOCK_SASL_ENABLED_MECHANISMS"


def cluster(path: Path, *, roles: str = "services", **shape: int) -> Cluster:
    return Cluster(Shape(roles=roles, **shape), RunDirectory(path), root=path, python=Path("python"), etcd=Path("etcd"))


@pytest.mark.parametrize(
    ("given", "third"),
    [
        ("SASL_PLAINTEXT://127.0.0.1:9492", "SASL_PLAINTEXT://127.0.0.1:9692"),
        ("SASL_SSL://[::]:9492", "SASL_SSL://[::]:9692"),
    ],
)
def test_each_gateway_has_the_port_of_the_first_one_and_a_hundred_for_each_before_it(given: str, third: str) -> None:
    assert of_gateway(1, {LISTENER: given}) == {LISTENER: given}
    assert of_gateway(3, {LISTENER: given, "PENSTOCK_RACK": "a"}) == {LISTENER: third}


@pytest.mark.parametrize("wrong", ["", "9492", "SASL_PLAINTEXT://127.0.0.1", "SASL_PLAINTEXT://127.0.0.1:x"])
def test_what_is_no_address_is_left_to_the_gateway(wrong: str) -> None:
    assert of_gateway(2, {LISTENER: wrong}) == {}
    assert bootstrap_servers([{LISTENER: wrong}]) == {}
    refuse_ports_of_others(Shape(), {"gateway-1": {LISTENER: wrong}})


def test_clients_are_told_where_they_reach_the_listeners_of_all_gateways() -> None:
    settings = {LISTENER: "SASL_PLAINTEXT://0.0.0.0:9492", ADVERTISED: "SASL_PLAINTEXT://kafka.example.net:9492"}
    gateways = [settings | of_gateway(number, settings) for number in (1, 2)]
    assert bootstrap_servers(gateways) == {"SASL_PLAINTEXT": "kafka.example.net:9492,kafka.example.net:9592"}


def test_ports_that_the_cluster_or_another_listener_takes_are_refused() -> None:
    one = {LISTENER: "SASL_PLAINTEXT://127.0.0.1:9192"}
    refuse_ports_of_others(Shape(gateways=1), {"gateway-1": one})
    with pytest.raises(LauncherError, match=r"gateway-1 would take the ports 9192 to 9195 .* GATEWAYS=2 takes port 9192"):
        refuse_ports_of_others(Shape(gateways=2), {"gateway-1": one})
    with pytest.raises(LauncherError, match=rf"PENSTOCK_SSL_LISTENER, and {LISTENER} of gateway-1 takes port 9195"):
        refuse_ports_of_others(Shape(), {"gateway-1": one | {"PENSTOCK_SSL_LISTENER": "SSL://127.0.0.1:9195"}})


def test_a_listener_is_remembered_and_a_new_gateway_has_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunDirectory(tmp_path)
    given = {LISTENER: "SASL_PLAINTEXT://127.0.0.1:9492", MECHANISMS: "SCRAM-SHA-512"}
    run.place_of("gateway-1", {**given, "PENSTOCK_LOG_LEVEL": "debug"})
    listeners = cluster(tmp_path, gateways=2).listeners()
    assert listeners == {
        "gateway-1": given,
        "gateway-2": {LISTENER: "SASL_PLAINTEXT://127.0.0.1:9592", MECHANISMS: "SCRAM-SHA-512"},
    }
    monkeypatch.setenv(LISTENER, "SASL_PLAINTEXT://127.0.0.1:9792")
    listeners = cluster(tmp_path, gateways=2).listeners(starting=["gateway-2"])
    assert listeners["gateway-1"][LISTENER].endswith(":9492")
    assert listeners["gateway-2"][LISTENER].endswith(":9892")
    assert cluster(tmp_path, gateways=2).listeners()["gateway-2"][LISTENER].endswith(":9592"), "nothing was started"
    monkeypatch.setenv(LISTENER, "")
    assert cluster(tmp_path).listeners(starting=["gateway-1"])["gateway-1"][LISTENER] == ""


@pytest.mark.parametrize("roles", ["services", "node"])
def test_a_gateway_that_comes_later_has_the_hosts_of_the_first_one(tmp_path: Path, roles: str) -> None:
    hosts = {LISTEN_HOST: "0.0.0.0", ADVERTISED_HOST: "192.168.1.5"}
    RunDirectory(tmp_path).place_of("gateway-1", hosts)
    grown = cluster(tmp_path, roles=roles, **({"storage": 2} if roles == "node" else {"gateways": 2}))
    assert list(grown.listeners().values()) == [hosts, hosts]
    assert [address.partition(":")[0] for address in grown.bootstrap_servers().split(",")] == ["192.168.1.5"] * 2


def test_a_gateway_keeps_the_host_that_it_was_given(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    run.place_of("gateway-1", {ADVERTISED_HOST: "192.168.1.5"})
    run.place_of("gateway-2", {ADVERTISED_HOST: "kafka.example.net"})
    assert cluster(tmp_path, gateways=2).bootstrap_servers() == "192.168.1.5:9092,kafka.example.net:9192"


@pytest.mark.parametrize("setting", [*AUTHORIZER, *BOUNDS, "PENSTOCK_SSL_CLIENT_AUTH"])
def test_no_restart_forgets_what_protects_the_cluster(tmp_path: Path, setting: str) -> None:
    RunDirectory(tmp_path).place_of("gateway-1", {setting: "5"})
    assert cluster(tmp_path, gateways=2).listeners() == {"gateway-1": {setting: "5"}, "gateway-2": {setting: "5"}}


def test_whoever_removes_damaged_settings_hears_that_they_protect_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "places.json").write_text("{", encoding="utf-8")
    with pytest.raises(LauncherError, match=r"remove it, then give .*PENSTOCK_AUTHORIZER.* clients may do everything"):
        cluster(tmp_path).listeners()


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("PENSTOCK_SASL_LISTENR", "; did you mean PENSTOCK_SASL_LISTENER?"),
        ("PENSTOCK_AUTHORIZER_CLASS", "; did you mean PENSTOCK_AUTHORIZER?"),
        ("PENSTOCK_SSL_CRL_LOCATION", ""),
    ],
)
def test_what_no_gateway_has_is_refused_before_it_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, instead: str
) -> None:
    """Each later start would fail by it, or lack the protection that it asks for."""
    monkeypatch.setenv(name, "/file")
    with pytest.raises(LauncherError, match=re.escape(f"there is no setting {name}{instead}")):
        local.up(RunDirectory(tmp_path / "run"), local.parse(["up", f"--run={tmp_path / 'run'}"]))
    assert not (tmp_path / "run").exists()
    refuse_unknown({name: "", MECHANISMS: "PLAIN", "PENSTOCK_RACK_": "a"}, ROOT)


def test_a_start_that_fails_by_what_is_remembered_says_how_to_end_it() -> None:
    keystore, key = "PENSTOCK_SSL_KEYSTORE_LOCATION", "PENSTOCK_SSL_KEY_LOCATION"
    text = f"gateway: {keystore} /nowhere.pem cannot be read"
    place = {keystore: "/nowhere.pem", key: "", MECHANISMS: "PLAIN"}
    assert remembered_in(text, place, ()) == (
        f"`make up` remembers {keystore} from before: give another value, or an empty one to end it (`{keystore}= make up`). "
    )
    assert remembered_in(text, place, [keystore]) == ""
    assert remembered_in("gateway: no space left", place, ()) == ""
