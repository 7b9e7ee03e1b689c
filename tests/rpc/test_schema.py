"""Contracts to lists and back, as the annotations say."""

import dataclasses
import typing
from dataclasses import dataclass
from typing import Any, cast

import msgpack  # type: ignore[import-untyped]
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from libs.rpc.contracts import controller, storage
from libs.rpc.messages.errors import ContractError
from libs.rpc.messages.schema import pack, unpack

CONTRACTS = [
    value
    for module in (controller, storage)
    for value in vars(module).values()
    if isinstance(value, type) and dataclasses.is_dataclass(value)
]


@dataclass(frozen=True, slots=True)
class Inner:
    name: str
    data: bytes | None = None


@dataclass(frozen=True, slots=True)
class Outer:
    number: int
    flag: bool
    ratio: float
    inner: Inner
    maybe: Inner | None
    inners: tuple[Inner, ...]
    pairs: tuple[tuple[int, str], ...]
    lists: tuple[tuple[int, ...], ...] | None
    names: tuple[str | None, ...] = ()
    later: int = 7


OUTER = Outer(1, True, 0.5, Inner("a"), None, (Inner("b", b"x"),), ((1, "one"),), ((1, 2), ()), ("x", None))


def over_the_wire(value: list[object]) -> Any:
    return msgpack.unpackb(msgpack.packb(value))


def test_every_kind_of_field_survives_the_wire() -> None:
    assert unpack(Outer, over_the_wire(pack(OUTER))) == OUTER


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    if dataclasses.is_dataclass(hint):
        return st.builds(cast(Any, hint), *(values_of(each) for each in typing.get_type_hints(hint).values()))
    args = typing.get_args(hint)
    if typing.get_origin(hint) is tuple and args[1:] == (...,):
        return st.lists(values_of(args[0]), max_size=3).map(tuple)
    if typing.get_origin(hint) is tuple:
        return st.tuples(*map(values_of, args))
    if args:
        return st.none() | values_of(args[0])
    simple: dict[Any, st.SearchStrategy[Any]] = {
        int: st.integers(-(1 << 63), (1 << 63) - 1),
        str: st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
        bytes: st.binary(max_size=20),
        bool: st.booleans(),
        float: st.floats(allow_nan=False),
    }
    return simple[hint]


@pytest.mark.parametrize("cls", CONTRACTS, ids=lambda cls: cls.__name__)
def test_every_contract_survives_the_wire(cls: type) -> None:
    @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
    @given(values_of(cls))
    def check(contract: object) -> None:
        assert unpack(cls, over_the_wire(pack(contract))) == contract

    check()


def test_trailing_fields_are_ignored_and_missing_ones_defaulted() -> None:
    packed = pack(OUTER)
    assert unpack(Outer, [*packed, "from a newer version"]) == OUTER
    assert unpack(Outer, packed[:-2]) == dataclasses.replace(OUTER, names=())
    assert unpack(Inner, ["n"]) == Inner("n")


@pytest.mark.parametrize(
    ("index", "value"),
    [
        (0, "1"),
        (0, True),
        (0, 1 << 63),
        (0, None),
        (1, 1),
        (2, 1),
        (3, None),
        (3, []),
        (4, "x"),
        (5, None),
        (5, [[b"name"]]),
        (5, "names"),
        (6, [[1]]),
        (6, [[1, 2]]),
        (6, [1]),
        (7, [[1], 2]),
        (8, [1]),
    ],
)
def test_a_field_of_the_wrong_shape_is_refused(index: int, value: object) -> None:
    packed = pack(OUTER)
    packed[index] = value
    with pytest.raises(ContractError):
        unpack(Outer, packed)


def test_the_refusal_names_the_field() -> None:
    with pytest.raises(ContractError, match=r"AppendPartition\.leader_epoch: expected an int64, got str"):
        unpack(storage.Append, [1, 1000, [[bytes(16), 0, "x", 5]]])


def test_too_few_fields_are_refused() -> None:
    for value in ([], [1, True], None, 7, {"number": 1}):
        with pytest.raises(ContractError):
            unpack(Outer, value)


def test_a_contract_with_a_field_that_has_no_wire_form_is_a_bug_found_at_once() -> None:
    @dataclass(frozen=True)
    class Wrong:
        mapping: dict[str, int]

    with pytest.raises(TypeError, match="no wire form"):
        pack(Wrong({}))
