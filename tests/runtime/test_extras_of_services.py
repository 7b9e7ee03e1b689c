"""The extra of each service in pyproject.toml brings every package that the service imports: its image has no others."""

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.docs.house_rules import TOPS

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
OF_DEVELOPERS = "dev"
ELSEWHERE = "pipeline"
"""It has an environment of its own (`make setup-pipeline`), which has no package of another service."""
SERVICES = [
    extra
    for extra in EXTRAS
    if extra not in (OF_DEVELOPERS, ELSEWHERE) and (ROOT / "services" / extra.replace("-", "_")).exists()
]
PROVIDERS = {name: {canonicalize_name(each) for each in found} for name, found in packages_distributions().items()}
"""Distributions by the name of the package that is imported. Several may share one, such as `google`."""
HIDING = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name in {hidden!r}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)

sys.meta_path.insert(0, Hidden())
import aiohttp.web, {module}
"""


def test_each_service_has_an_extra() -> None:
    with_settings = [path.parent.name.replace("_", "-") for path in (ROOT / "services").glob("*/config.py")]
    assert set(with_settings) <= set(SERVICES)
    assert len(SERVICES) >= 5


def programs(service: str) -> Iterator[str]:
    """What `python -m` runs of this service: itself, and the tools that come with it."""
    for path in sorted((ROOT / "services" / service.replace("-", "_")).rglob("__main__.py")):
        yield ".".join(path.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize(("service", "module"), [(service, module) for service in SERVICES for module in programs(service)])
def test_the_extra_of_a_service_brings_all_that_its_programs_import(service: str, module: str) -> None:
    brought = brought_by([*PROJECT["dependencies"], *EXTRAS[service]])
    hidden = {name for name, providers in PROVIDERS.items() if brought.isdisjoint(providers)} - set(TOPS)
    program = HIDING.format(hidden=hidden, module=module)
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, encoding="utf-8")
    assert ended.returncode == 0, ended.stderr[-500:]


def brought_by(requirements: list[str]) -> set[str]:
    """The names of these packages, and of all that they require in turn."""
    brought: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name == "penstock":
            waiting += [Requirement(text) for extra in requirement.extras for text in EXTRAS[extra]]
        elif name not in brought:
            brought.add(name)
            needed = [Requirement(text) for text in requires(name) or ()]
            waiting += [each for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
    return brought
