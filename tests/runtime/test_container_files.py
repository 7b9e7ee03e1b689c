"""The Dockerfile and the Compose files say what pyproject.toml and the services' settings say."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from libs.runtime.config import load
from libs.runtime.setting_names import NAMES
from services.gateway.config import GatewayConfig
from services.gateway.core.listener_settings import CLIENT_AUTH

ROOT = Path(__file__).resolve().parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
COMPOSE_FILES = ("compose.yaml", "compose.single.yaml")
SASL, TLS = "compose.sasl.yaml", "compose.tls.yaml"
SETTING = re.compile(r"(?<![${\w])PENSTOCK_([A-Z_]+)(?=[:=])")
GIVEN_TO_COMPOSE = re.compile(r"\$\{(PENSTOCK_[A-Z_]+)")


@pytest.mark.parametrize("file", COMPOSE_FILES)
def test_images_have_the_version_of_the_project(file: str) -> None:
    assert set(re.findall(r"PENSTOCK_TAG:-([^}]*)}", (ROOT / file).read_text(encoding="utf-8"))) == {VERSION}
    assert re.findall(r"ARG VERSION=(.*)", (ROOT / "Dockerfile").read_text(encoding="utf-8")) == [VERSION]


@pytest.mark.parametrize(
    "file", ["Dockerfile", "compose.yaml", SASL, TLS, *(f"compose.tls/client-auth-{each}.env" for each in CLIENT_AUTH[1:])]
)
def test_containers_get_settings_that_services_know(file: str) -> None:
    given = {name.lower() for name in SETTING.findall((ROOT / file).read_text(encoding="utf-8"))}
    assert given
    assert given <= set(NAMES)


def gateway_of(*files: str, **variables: str) -> GatewayConfig:
    """Compose lays the variables of each file over those of the ones before it, and over those of `env_file`."""
    merged: dict[str, Any] = {}
    given: dict[str, str] = {}

    def filled(text: str) -> str:
        return re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: variables.get(found[1], "") or found[2], text)

    for file in files:
        gateway = yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))["services"]["gateway"]
        merged |= gateway["environment"]
        if "env_file" in gateway:
            lines = (ROOT / filled(gateway["env_file"])).read_text(encoding="utf-8").splitlines()
            given |= dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    given |= {name: filled(str(value)) for name, value in merged.items() if value is not None}
    config = load(GatewayConfig, env={**given, "PENSTOCK_DATA_DIR": "/data", "PENSTOCK_TRACE_SAMPLE_RATIO": "0.01"})
    assert config.problem() is None
    return config


def test_compose_takes_the_settings_of_the_authorizer_for_both_gateways() -> None:
    assert gateway_of("compose.yaml").authorizer == ""
    given = {"PENSTOCK_AUTHORIZER": "StandardAuthorizer", "PENSTOCK_SUPER_USERS": "User:admin;User:ANONYMOUS"}
    config = gateway_of("compose.yaml", SASL, **given, PENSTOCK_ALLOW_EVERYONE_IF_NO_ACL_FOUND="true")
    assert (config.authorizer, config.super_users) == tuple(given.values())
    assert config.allow_everyone_if_no_acl_found
    services = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    for name in ("AUTHORIZER", "SUPER_USERS", "ALLOW_EVERYONE_IF_NO_ACL_FOUND"):
        variable = f"PENSTOCK_{name}"
        same = {services[gateway]["environment"][variable] for gateway in ("gateway", "gateway-internal")}
        assert len(same) == 1


def test_clients_of_the_published_ports_authenticate_over_tls_where_compose_is_given_certificates() -> None:
    config = gateway_of("compose.yaml", SASL, TLS)
    assert (config.sasl_address.protocol, config.sasl_advertised_address.port_base) == ("SASL_SSL", 9092)
    assert (config.sasl_ssl_client_auth, config.ssl_truststore_location) == ("none", "")
    assert gateway_of("compose.yaml", SASL, TLS, PENSTOCK_SASL_SSL_CLIENT_AUTH="none") == config
    requested, mutual = [
        gateway_of("compose.yaml", SASL, TLS, PENSTOCK_SASL_SSL_CLIENT_AUTH=each) for each in ("requested", "required")
    ]
    assert (requested.sasl_ssl_client_auth, requested.ssl_truststore_location) == ("requested", mutual.ssl_truststore_location)
    [volume] = yaml.safe_load((ROOT / TLS).read_text(encoding="utf-8"))["services"]["gateway"]["volumes"]
    files = (mutual.ssl_keystore_location, mutual.ssl_key_location, mutual.ssl_truststore_location)
    assert files == tuple(f"{volume['target']}/{name}" for name in ("tls.crt", "tls.key", "ca.crt"))
    assert (volume["read_only"], volume["bind"]) == (True, {"create_host_path": False})


def test_clients_of_the_published_ports_authenticate_where_compose_is_asked_for_it() -> None:
    base, over = [yaml.safe_load((ROOT / file).read_text(encoding="utf-8")) for file in ("compose.yaml", SASL)]
    config = gateway_of("compose.yaml", SASL)
    assert config.listen_host == config.advertised_host == "127.0.0.1"
    assert (config.sasl_address.port_base, config.sasl_advertised_address.port_base) == (9092, 9092)
    own = base["services"]["gateway-internal"]["environment"]["PENSTOCK_LISTENER_NAME"]
    assert config.listener_name != own, "gateways of one name tell clients each other's addresses"
    for controller in ("controller-1", "controller-2"):
        assert over["services"][controller]["environment"]["PENSTOCK_ADD_SCRAM_FILE"] == "/run/secrets/first-users"
        assert over["services"][controller]["secrets"] == ["first-users"]


def test_the_page_names_each_variable_that_compose_takes() -> None:
    page = (ROOT / "docs" / "operate" / "compose.md").read_text(encoding="utf-8")
    variables = {
        name
        for file in (*COMPOSE_FILES, SASL, TLS)
        for name in GIVEN_TO_COMPOSE.findall((ROOT / file).read_text(encoding="utf-8"))
    }
    assert len(variables) > 5
    assert variables <= set(re.findall(r"`(PENSTOCK_\w+)`", page))


def test_images_have_the_command_and_the_package_that_it_runs() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    (folder,) = re.findall(r"^COPY (\S+) \S+/site-packages/penstock$", text, re.MULTILINE)
    assert (ROOT / folder / "__main__.py").exists()
    assert "-m penstock" in text
