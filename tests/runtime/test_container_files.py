"""The Dockerfile and the Compose files say what pyproject.toml and the services' settings say."""

import re
import tomllib
from pathlib import Path

import pytest

from libs.runtime.setting_names import NAMES

ROOT = Path(__file__).resolve().parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
COMPOSE_FILES = ("compose.yaml", "compose.single.yaml")
SETTING = re.compile(r"(?<![${\w])PENSTOCK_([A-Z_]+)(?=[:=])")
GIVEN_TO_COMPOSE = re.compile(r"\$\{(PENSTOCK_[A-Z_]+)")


@pytest.mark.parametrize("file", COMPOSE_FILES)
def test_images_have_the_version_of_the_project(file: str) -> None:
    assert set(re.findall(r"PENSTOCK_TAG:-([^}]*)}", (ROOT / file).read_text(encoding="utf-8"))) == {VERSION}
    assert re.findall(r"ARG VERSION=(.*)", (ROOT / "Dockerfile").read_text(encoding="utf-8")) == [VERSION]


@pytest.mark.parametrize("file", ["Dockerfile", "compose.yaml"])
def test_containers_get_settings_that_services_know(file: str) -> None:
    given = {name.lower() for name in SETTING.findall((ROOT / file).read_text(encoding="utf-8"))}
    assert given
    assert given <= set(NAMES)


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
