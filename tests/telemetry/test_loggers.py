"""The table of loggers is that of the code."""

import ast

import pytest

from libs.cluster.records import CONTROLLER, GROUP_COORDINATOR, QUOTA_MANAGER, TRANSACTION_COORDINATOR
from libs.telemetry.loggers import ALIASES, CONCERNS, own_name
from tests.docs.house_rules import ROOT, modules
from tests.docs.syntax_trees import many_trees, nodes_of

OTHER_PROGRAMS = ("services.pipeline.", "services.local.")
"""They are no members of a cluster, and their loggers have the names of their modules."""


def loggers() -> dict[str, list[str]]:
    """Modules by the loggers that they make."""
    found: dict[str, list[str]] = {}
    with many_trees():
        trees = {name: tree for name, tree in modules().items() if not name.startswith(OTHER_PROGRAMS)}
        for name, tree in trees.items():
            for node in nodes_of(tree):
                match node:
                    case ast.Assign(
                        targets=[ast.Name(id="log")],
                        value=ast.Call(func=ast.Attribute(value=ast.Name(id="logging"), attr="getLogger"), args=[made]),
                    ):
                        found.setdefault(made.value if isinstance(made, ast.Constant) else ast.unparse(made), []).append(name)
    return found


def test_every_service_logs_by_loggers_of_the_table_and_by_each_of_them() -> None:
    made = loggers()
    assert {name: modules for name, modules in made.items() if name not in CONCERNS} == {}
    assert set(CONCERNS) == set(made)


def test_no_name_of_kafka_has_two_meanings() -> None:
    names = [alias for concern in CONCERNS.values() for alias in concern.kafka]
    assert len(names) == len(set(names)) == len(ALIASES)
    assert not set(names) & set(CONCERNS)


@pytest.mark.parametrize(
    ("kafka", "ours"),
    [
        ("kafka.controller", "controller"),
        ("state.change.logger", "elections"),
        ("kafka.request.logger", "requests"),
        ("kafka.log.LogCleaner", "cleaner"),
        ("replication", "replication"),
        ("no.such.logger", "no.such.logger"),
    ],
)
def test_loggers_that_operators_of_kafka_know(kafka: str, ours: str) -> None:
    assert own_name(kafka) == ours


def test_the_page_of_logs_has_the_table() -> None:
    page = (ROOT / "docs" / "operate" / "logs-and-views.md").read_text(encoding="utf-8")
    for name, concern in CONCERNS.items():
        kafka = ", ".join(f"`{alias}`" for alias in concern.kafka)
        assert f"| `{name}` | {concern.about} | {kafka} |\n" in page


def test_only_processes_that_are_no_brokers_are_named_beside_them() -> None:
    roles = {role for concern in CONCERNS.values() for role in concern.beside_brokers}
    assert roles == {CONTROLLER, GROUP_COORDINATOR, TRANSACTION_COORDINATOR, QUOTA_MANAGER}
