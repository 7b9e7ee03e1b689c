"""The Dockerfile and the Compose files say what pyproject.toml and the services' settings say."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from libs.runtime.config import load
from libs.runtime.setting_names import NAMES
from services.gateway.config import GatewayConfig

ROOT = Path(__file__).resolve().parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
COMPOSE_FILES = ("compose.yaml", "compose.single.yaml")
SASL = "compose.sasl.yaml"
SETTING = re.compile(r"(?<![${\w])PENSTOCK_([A-Z_]+)(?=[:=])")
GIVEN_TO_COMPOSE = re.compile(r"\$\{(PENSTOCK_[A-Z_]+)")


@pytest.mark.parametrize("file", COMPOSE_FILES)
def test_images_have_the_version_of_the_project(file: str) -> None:
    assert set(re.findall(r"PENSTOCK_TAG:-([^}]*)}", (ROOT / file).read_text(encoding="utf-8"))) == {VERSION}
    assert re.findall(r"ARG VERSION=(.*)", (ROOT / "Dockerfile").read_text(encoding="utf-8")) == [VERSION]


@pytest.mark.parametrize("file", ["Dockerfile", "compose.yaml", SASL])
def test_containers_get_settings_that_services_know(file: str) -> None:
    given = {name.lower() for name in SETTING.findall((ROOT / file).read_text(encoding="utf-8"))}
    assert given
    assert given <= set(NAMES)


def test_clients_of_the_published_ports_authenticate_where_compose_is_asked_for_it() -> None:
    """Compose lays the variables of the second file over those of the first one."""
    base, over = [yaml.safe_load((ROOT / file).read_text(encoding="utf-8")) for file in ("compose.yaml", SASL)]
    merged = {**base["services"]["gateway"]["environment"], **over["services"]["gateway"]["environment"]}
    given = {name: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", str(value)) for name, value in merged.items() if value is not None}
    config = load(GatewayConfig, env={**given, "PENSTOCK_DATA_DIR": "/data", "PENSTOCK_TRACE_SAMPLE_RATIO": "0.01"})
    assert config.problem() is None
    assert config.listen_host == config.advertised_host == "127.0.0.1"
    assert (config.sasl_address.port_base, config.sasl_advertised_address.port_base) == (9092, 9092)
    own = base["services"]["gateway-internal"]["environment"]["PENSTOCK_LISTENER_NAME"]
    assert config.listener_name != own, "gateways of one name tell clients each other's addresses"
    for controller in ("controller-1", "controller-2"):
        assert over["services"][controller]["environment"]["PENSTOCK_ADD_SCRAM_FILE"] == "/run/secrets/first-users"
        assert over["services"][controller]["secrets"] == ["first-users"]


def test_the_page_names_each_variable_that_compose_takes() -> None:
    page = (ROOT / "docs" / "operate" / "compose.md").read_text(encoding="utf-8")
    variables = {name for file in COMPOSE_FILES for name in GIVEN_TO_COMPOSE.findall((ROOT / file).read_text(encoding="utf-8"))}
    assert len(variables) > 5
    assert variables <= set(re.findall(r"`(PENSTOCK_\w+)`", page))


def test_images_have_the_command_and_the_package_that_it_runs() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    (folder,) = re.findall(r"^COPY (\S+) \S+/site-packages/penstock$", text, re.MULTILINE)
    assert (ROOT / folder / "__main__.py").exists()
    assert "-m penstock" in text
