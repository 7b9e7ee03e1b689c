"""Each way out that a log line names is followed by a test, in the situation that logs it."""

import ast
from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple

import pytest

from libs.cluster import lost_directories
from tests.docs.house_rules import ROOT, TOPS


class Followed(NamedTuple):
    says: tuple[str, ...]
    """The constants, or the function, that hold the words."""
    tests: tuple[str, ...]
    """Each constant is named in one of these files, by a test that does what it says."""


LOST = Followed(("ANOTHER_IN_SYNC", "ELECT", "RECREATE"), ("tests/storage/test_ways_out.py",))
WAYS_OUT = {
    "services/controller/elections/partition_reconciler.py: way_out(state, nodes, image.members(STORAGE))": LOST,
    "services/controller/term/restored_store.py: WAY_OUT": Followed(("WAY_OUT",), ("tests/controller/test_restored_store.py",)),
    "services/storage/refusals.py: OTHER_CLUSTER if error.owner == 'cluster' else OTHER_NODE": Followed(
        ("OTHER_CLUSTER", "OTHER_NODE"),
        ("tests/system/faults/test_lost_etcd.py", "tests/local/test_commands.py", "tests/storage/test_ways_out.py"),
    ),
    "services/storage/disks/missing_directories.py: way_out(state, (node_id,), members)": LOST,
    "services/storage/disks/missing_directories.py: NO_LONGER": Followed(("NO_LONGER",), ("tests/storage/test_ways_out.py",)),
    "services/storage/disks/volume_stamps.py: WAY_OUT": Followed(("WAY_OUT as WENT_BACK",), ("tests/storage/test_ways_out.py",)),
    "services/storage/reconcile/log_opening.py: repair_hint(path)": Followed(
        ("repair_hint",), ("tests/storage/test_ways_out.py",)
    ),
    "services/storage/reconcile/strays.py: WAY_OUT": Followed(("WAY_OUT as STRAY",), ("tests/storage/test_ways_out.py",)),
    "services/transaction_coordinator/markers/marker_writer.py: MISSING_WAY_OUT": Followed(
        ("MISSING_WAY_OUT",), ("tests/transaction_coordinator/test_marker_writer.py",)
    ),
}
"""By the place that logs it. A new one needs a test that follows it."""


def logged() -> Iterator[str]:
    """`file: expression` of each way out that the code logs. A local variable stands for the value that it was given."""
    for top in TOPS:
        for path in sorted((ROOT / top).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if "way_out" not in text:  # to parse all files takes two seconds
                continue
            tree = ast.parse(text)
            given = {
                node.targets[0].id: node.value
                for node in ast.walk(tree)
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.islower()
            }
            for value in values(tree):
                value = given.get(value.id, value) if isinstance(value, ast.Name) else value
                yield f"{path.relative_to(ROOT)}: {ast.unparse(value)}"


def values(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "way_out":
            yield node.value
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "way_out" and not is_number(value):
                    yield value


def is_number(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, int)


def test_each_way_out_has_a_test_that_follows_it() -> None:
    assert sorted(logged()) == sorted(WAYS_OUT)


@pytest.mark.parametrize("place", WAYS_OUT)
def test_the_tests_of_a_way_out_name_its_words(place: str) -> None:
    says, tests = WAYS_OUT[place]
    sources = [(ROOT / test).read_text(encoding="utf-8") for test in tests]
    assert [name for name in says if not any(source.count(name.rpartition(" ")[2]) > 1 for source in sources)] == []


def test_the_words_for_lost_directories_are_all_there() -> None:
    constants = {name for name, value in vars(lost_directories).items() if name.isupper() and isinstance(value, str)}
    assert constants == set(LOST.says)


@pytest.mark.parametrize("place", WAYS_OUT)
def test_no_sentence_of_a_way_out_is_long(place: str) -> None:
    module = import_module(place.partition(".py: ")[0].replace("/", "."))
    for name in WAYS_OUT[place].says:
        words = getattr(module, name.partition(" ")[0], None) or getattr(lost_directories, name, "")
        for sentence in (words if isinstance(words, str) else words("DIR")).split(". "):
            assert len(sentence.split()) <= 30, sentence
