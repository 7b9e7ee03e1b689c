"""Client configs of docs/operate/tuning.md are those of Kafka's own clients, with their defaults."""

import html
import re

import pytest

from tests.compat.kafka.tools import run_tool
from tests.support.requirements import ROOT

PAGE = (ROOT / "docs" / "operate" / "tuning.md").read_text(encoding="utf-8")
UNITS = {"KiB": 1024, "MiB": 1 << 20, "s": 1000, "min": 60_000}


def rows(section: str) -> dict[str, str]:
    """The default that the page gives, by config. Rows of several configs give each its own."""
    table = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    found = {}
    for names, defaults in re.findall(r"^\| (`[^|]+`) \| ([^|]+) \|", table, re.MULTILINE):
        keys = re.findall(r"`([\w.]+)`", names)
        values = re.sub(r" \([^)]*\)", "", defaults).split(", ")
        found.update(zip(keys, values, strict=True))
    return found


def kafkas_defaults(config_class: str) -> dict[str, str]:
    """By config: its default, as Kafka's own documentation of the class says."""
    text = run_tool(f"org.apache.kafka.clients.{config_class}").text
    entries = re.findall(r'<h4><a id="([\w.]+)">.*?<th>Default:</th><td>(.*?)</td>', text, re.DOTALL)
    return {name: html.unescape(default).split(" (")[0] for name, default in entries}


def plain(default: str) -> str:
    """The page's default in Kafka's form: `64 KiB` is 65536, `5 min` is 300000. Words of Kafka's are in backticks."""
    if default.startswith("`"):
        return default.strip("`")
    number, _, unit = default.replace(",", "").partition(" ")
    if unit in UNITS:
        return str(int(number) * UNITS[unit])
    return {"none": "null", "empty": '""'}.get(number, number)


@pytest.mark.parametrize(
    ("section", "config_class"), [("Producers", "producer.ProducerConfig"), ("Consumers", "consumer.ConsumerConfig")]
)
def test_configs_have_kafkas_names_and_defaults(section: str, config_class: str) -> None:
    kafkas = kafkas_defaults(config_class)
    ours = rows(section)
    assert len(ours) > 10
    assert {
        name: (plain(default), kafkas.get(name)) for name, default in ours.items() if plain(default) != kafkas.get(name)
    } == {}
