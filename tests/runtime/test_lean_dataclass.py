"""The lean decorator beside the standard one: the same constructor, fields, equality, hash and shown form."""

import copy
import dataclasses
import pickle
import sys
from collections.abc import Callable
from typing import Any

import pytest

from libs import lean_dataclass

LEAN, STANDARD = lean_dataclass.dataclass, dataclasses.dataclass


def point(decorator: Callable[..., Any], **options: bool) -> Any:
    class Point:
        x: int
        y: int = 2
        tags: list[str] = dataclasses.field(default_factory=list, compare=False)
        secret: str = dataclasses.field(default="s", repr=False)

    Point.__qualname__ = "Point"
    return decorator(**options)(Point)


OPTIONS = [
    {"frozen": True, "slots": True},
    {"frozen": True},
    {"slots": True},
    {"slots": True, "eq": False},
    {"frozen": True, "slots": True, "eq": False},
    {"frozen": True, "slots": True, "kw_only": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_classes_are_those_of_the_standard_decorator(options: dict[str, bool]) -> None:
    lean, standard = (point(decorator, **options) for decorator in (LEAN, STANDARD))
    seen = []
    for cls in (lean, standard):
        one, same, other = cls(x=1), cls(x=1, tags=["not compared"]), cls(x=1, y=3)
        hashes = None if cls.__hash__ is None else (hash(one) == hash(same), hash(one) == hash(other))
        names = [field.name for field in dataclasses.fields(cls)]
        replaced = dataclasses.replace(one, y=5)
        seen.append((one == same, one == other, one == 1, hashes, repr(one), names, dataclasses.astuple(replaced)))
        assert one == copy.copy(one) or not options.get("eq", True)
        assert hasattr(one, "__dict__") != options.get("slots", False)
        with pytest.raises(TypeError):
            cls()
    assert seen[0] == seen[1]
    assert lean.__match_args__ == standard.__match_args__


def single(decorator: Callable[..., Any]) -> Any:
    class Single:
        value: object

    return decorator(frozen=True)(Single)


def test_a_single_field_is_compared_and_hashed_as_the_standard_decorator_does() -> None:
    class Undecided:
        """As an array of numpy: `==` gives no bool."""

        def __eq__(self, other: object) -> Any:
            return [True, False]

        __hash__ = None  # type: ignore[assignment]

    nan, undecided = float("nan"), Undecided()
    seen = []
    for cls in (single(LEAN), single(STANDARD)):
        seen.append((cls(nan) == cls(nan), cls(undecided) == cls(undecided), cls(undecided) == cls(Undecided()), hash(cls(5))))
    assert seen[0] == seen[1] == (True, True, True, hash((5,)))


def test_a_field_may_be_compared_and_not_hashed() -> None:
    def made(decorator: Callable[..., Any]) -> Any:
        class Half:
            key: int
            rest: list[int] = dataclasses.field(hash=False)

        return decorator(frozen=True)(Half)

    for cls in (made(LEAN), made(STANDARD)):
        assert hash(cls(1, [2])) == hash(cls(1, [3]))
        assert cls(1, [2]) != cls(1, [3])


@LEAN(frozen=True, slots=True)
class Own:
    """A class with methods of its own."""

    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and self.name.lower() == other.name.lower()

    def __hash__(self) -> int:
        return hash(self.name.lower())

    def __repr__(self) -> str:
        return f"<{self.name}>"


@LEAN(frozen=True, slots=True)
class Empty:
    pass


@LEAN(frozen=True, slots=True)
class Longer(Own):
    length: int = 0


def test_methods_of_a_class_are_kept() -> None:
    assert Own("A") == Own("a")
    assert hash(Own("A")) == hash(Own("a"))
    assert repr(Own("A")) == "<A>"
    assert Own.__doc__ == "A class with methods of its own."


def test_a_class_without_fields_and_a_derived_one_are_equal_by_their_fields() -> None:
    assert Empty() == Empty()
    assert hash(Empty()) == hash(Empty())
    assert Longer("a", 1) != Longer("a", 2)
    assert Longer("a") != Longer("A")
    assert pickle.loads(pickle.dumps(Longer("a", 1))) == Longer("a", 1)


def test_only_the_constructor_is_compiled() -> None:
    compiled: list[bytes] = []
    listening = True

    def heard(event: str, given: tuple[Any, ...]) -> None:
        if listening and event == "compile" and given[1] == "<string>":
            compiled.append(given[0])

    sys.addaudithook(heard)
    point(STANDARD, frozen=True, slots=True)
    standard = len(compiled)
    compiled.clear()
    point(LEAN, frozen=True, slots=True)
    listening = False
    assert (len(compiled), standard) == (1, 6)
