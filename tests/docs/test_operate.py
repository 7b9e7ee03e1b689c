"""The operator's pages name settings, configs, metrics, bench cases and headings that exist."""

import re
from pathlib import Path

import pytest

from libs.cluster.configs.definitions import BROKER_CONFIGS, GROUP_CONFIGS, TOPIC_CONFIGS
from libs.cluster.configs.group_table import COORDINATOR_CONFIGS
from services.gateway.core.listener_settings import Address, port_clash
from tests.docs.house_rules import ROOT
from tests.docs.metrics_page import definitions, exposed, process_metrics

OPERATE = ROOT / "docs" / "operate"
PAGES = [OPERATE / f"{name}.md" for name in ("nodes", "disks", "disaster", "sizing", "tuning")]
SETTINGS = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
CONFIGS_PAGE = (ROOT / "docs" / "use" / "configs.md").read_text(encoding="utf-8")
FIGURES = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
CONFIGS = {*BROKER_CONFIGS, *GROUP_CONFIGS, *TOPIC_CONFIGS, *COORDINATOR_CONFIGS}
BROKER_SECTIONS = (
    "Broker: processes and threads",
    "Broker: durability and replication",
    "Retention",
    "Compaction",
    "Codecs",
    "Groups",
)


def section(page: str, title: str) -> str:
    return (OPERATE / page).read_text(encoding="utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("title", BROKER_SECTIONS)
def test_broker_and_topic_configs_of_the_tuning_guide_exist(title: str) -> None:
    rows = re.findall(r"^\| (`[^|]+) \|", section("tuning.md", title), re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`([a-z0-9.]+)`", row)]
    assert len(named) > 1
    assert [name for name in named if name not in CONFIGS and f"| `{name}` |" not in CONFIGS_PAGE] == []


def test_settings_on_the_pages_exist() -> None:
    named = {name for page in PAGES for name in re.findall(r"`(PENSTOCK_\w+)`", page.read_text(encoding="utf-8"))}
    assert len(named) > 5
    assert [name for name in sorted(named) if f"`{name}`" not in SETTINGS] == []


def test_metrics_on_the_pages_exist() -> None:
    known = {exposed(definition) for each in definitions().values() for definition in each} | process_metrics().keys()
    known |= {f"{name}_total" for name in process_metrics()}
    named = {
        name for page in PAGES for name in re.findall(r"`((?:kafka|penstock|process)_[a-z_]+)`", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 3
    assert named - known == set()


def test_figures_name_cases_of_the_bench() -> None:
    pattern = (
        r"`((?:produce|synced|replicated|fetch|random|commits|compaction|recovery|memory|latency|clean|descriptors)-[\w-]+)`"
    )
    named = {name for page in PAGES for name in re.findall(pattern, page.read_text(encoding="utf-8"))}
    assert len(named) > 10
    assert [name for name in sorted(named) if f"| {name}" not in FIGURES] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_headings_of_the_operators_pages_lead_somewhere(page: Path) -> None:

    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
        headings = re.findall(
            r"^#+ (.+)$", ((page.parent / target) if target else page).read_text(encoding="utf-8"), re.MULTILINE
        )
        anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert anchor in anchors, f"{target}#{anchor}"


def test_the_example_of_the_sizing_page_adds_up() -> None:
    bytes_per_s, seconds, replicas, spare = 20_000 * 500, 7 * 86_400, 3, 1.4
    terabytes = bytes_per_s * seconds * replicas * spare / 1e12
    example = section("sizing.md", "An example")
    assert f"{terabytes:.0f} TB: {terabytes / 3:.1f} TB on each" in example
    assert f"{bytes_per_s * 600 * replicas / 3 / 1e9:.0f} GB on each node" in example


def test_an_upgrade_is_preceded_by_what_this_version_refuses() -> None:
    told = section("upgrading.md", "Before an upgrade")
    assert "`PENSTOCK_ADMIN_NAMES=" in told
    first, other, port = map(int, re.findall(r"\b9\d{3}\b", told))
    ids = [int(number) for number in re.findall(r"ids (\d+) and (\d+)", told)[0]]
    listens = {"one": Address("PLAINTEXT", "host", first), "another": Address("SSL", "host", other)}
    assert port_clash(listens, ids[:1]) is None
    clash = port_clash(listens, ids)
    assert clash is not None
    assert f"both need port {port}:" in clash
