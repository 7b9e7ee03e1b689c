"""The rules of the house hold, and each of them can be broken."""

import ast

import pytest

from tests.docs import house_rules
from tests.docs.house_rules import broken, circles, folders, imports, imports_of_tests, private_reaches, shared_randomness
from tests.docs.text_encodings import unnamed_encodings


def trees(**sources: str) -> dict[str, ast.Module]:
    return {name.replace("__", "."): ast.parse(source) for name, source in sources.items()}


def test_the_rules_hold_and_one_more_private_attribute_in_a_test_would_break_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house_rules, "TEST_REACHES", house_rules.TEST_REACHES - 1)
    (line,) = broken()
    assert "--reaches" in line


def test_a_circle_is_found_whoever_imports_for_type_checking_only() -> None:
    found = trees(
        a__one="from a import two",
        a__two="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a.three import T",
        a__three="import a.one",
        a__four="import a.one",
    )
    assert list(circles(imports(found))) == [["a.one", "a.three", "a.two"]]


def test_folders_that_import_each_other_by_different_files_are_a_circle() -> None:
    found = trees(a__x__one="import a.y.two", a__x__three="", a__y__two="", a__y__four="import a.x.three")
    assert list(circles(imports(found))) == []
    assert list(circles(folders(imports(found)))) == [["a.x", "a.y"]]


def test_a_file_beside_folders_is_no_circle_with_what_it_ties_together() -> None:
    found = trees(a="", a__service="import a.x.one", a__config="", a__x__one="import a.config")
    assert list(circles(folders(imports(found)))) == []


def test_only_private_attributes_of_others_are_reached_for() -> None:
    source = "class A:\n    def __init__(self, b):\n        self._x = b._y\n    def same(self, other):\n        return other._x"
    assert list(private_reaches(trees(a=source))) == ["a:3: b._y"]


def test_the_constants_of_other_peoples_libraries_are_no_private_attributes() -> None:
    assert list(private_reaches(trees(a="code = KafkaError._TRANSPORT"))) == []


def test_an_import_from_a_test_module_is_found_in_code_and_in_the_text_of_programs() -> None:
    source = "pass; import tests.a.test_b\nfrom tests.docs import test_house_rules, cases\nX = 'from tests.a.test_c import d'"
    assert list(imports_of_tests(trees(tests=source))) == [
        "tests:1: tests.a.test_b",
        "tests:2: test_house_rules",
        "tests:3: tests.a.test_c",
    ]


def test_the_generator_that_all_modules_share_is_told_from_one_of_their_own() -> None:
    own = "import random\nfrom random import Random, SystemRandom\nrandom.Random(1).random()\nSystemRandom().choice(x)"
    parameter = "from random import Random\ndef draw(random: Random): return random.random()"
    shared = "import random\nfrom random import choice\nx = random.random()"
    assert list(shared_randomness(trees(own=own, parameter=parameter))) == []
    assert list(shared_randomness(trees(shared=shared))) == ["shared:2: random.choice", "shared:3: random.random"]


TEXT_OF_A_LOCALE = """
path.read_text()
path.write_text("x")
path.read_text(errors="replace")
open(name)
open(name, "w")
path.open("a")
os.fdopen(fd, "w")
gzip.open(name, "rt")
tempfile.TemporaryFile("w+")
subprocess.run(argv, text=True)
f"{path.read_text()}"
"""
NAMED_OR_BINARY = """
path.read_text("utf-8")
path.write_text("x", encoding="utf-8")
open(name, "rb")
open(name, "w", -1, "utf-8")
path.open("wb")
gzip.open(name)
tempfile.TemporaryFile()
tarfile.open(name, "w")
Log.open(directory)
store.open("events")
subprocess.run(argv, encoding="utf-8")
subprocess.run(argv, text=False)
web.Response(text=answer)
"""


def test_text_whose_encoding_a_locale_would_choose_is_found() -> None:
    found = list(unnamed_encodings(trees(a=TEXT_OF_A_LOCALE)))
    assert len(found) == len(TEXT_OF_A_LOCALE.split("\n")) - 2
    assert list(unnamed_encodings(trees(a=NAMED_OR_BINARY))) == []
