"""Protobuf values as rows, without Spark: what is decoded, what is refused, and the message indexes of Confluent's frames."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.pipeline.protobuf.confluent_frame import index_paths, read_indexes
from services.pipeline.protobuf.message_types import MessageTypes
from services.pipeline.protobuf.row_decoder import NoValue, RowDecoder
from services.pipeline.protobuf.value_decoder import value_decoder
from tests.pipeline.protobuf_files import descriptor_set, enum, file, message, message_class

ITEM = message("Item", "string name = 1", "uint32 count = 2")
ORDER = message(
    "Order",
    "int64 id = 1",
    "repeated .shop.Item items = 2",
    "map<string, .shop.Item> by_name = 3",
    "map<int32, .shop.Color> colors = 4",
    "optional int32 discount = 5",
    "in payment: string card = 6",
    "in payment: .shop.Item voucher = 7",
    ".shop.Color color = 8",
    ".google.protobuf.Timestamp at = 9",
    ".google.protobuf.Duration after = 10",
    "repeated .shop.Color wishes = 11",
    "repeated sint32 changes = 12",
    ".shop.Order.Address address = 13",
    nested=[message("Address", "string street = 1")],
)
COLOR = enum("Color", RED=0, GREEN=1, LIME=1)
IMPORTS = ("google/protobuf/timestamp.proto", "google/protobuf/duration.proto")
SHOP = descriptor_set(file("shop.proto", COLOR, ITEM, ORDER, imports=IMPORTS))
UNSET = {"id": 0, "items": [], "by_name": [], "colors": [], "color": "RED", "wishes": [], "changes": []}
OLD = descriptor_set(
    file(
        "old.proto",
        enum("Size", S=0, M=1),
        message(
            "Old",
            "required int32 id = 1",
            "optional string text = 2",
            "optional int32 count = 3 [default = 7]",
            "optional .shop.Size size = 4 [default = M]",
            "repeated .shop.Size sizes = 5",
            "map<int32, .shop.Size> by_id = 6",
            proto2=True,
        ),
        syntax="proto2",
    )
)
NUMBERS = {
    "double": st.floats(),
    "float": st.floats(width=32),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "uint64": st.integers(0, 2**64 - 1),
    "sint32": st.integers(-(2**31), 2**31 - 1),
    "sint64": st.integers(-(2**63), 2**63 - 1),
    "fixed32": st.integers(0, 2**32 - 1),
    "fixed64": st.integers(0, 2**64 - 1),
    "sfixed32": st.integers(-(2**31), 2**31 - 1),
    "sfixed64": st.integers(-(2**63), 2**63 - 1),
}
SCALARS: dict[str, st.SearchStrategy[Any]] = {**NUMBERS, "bool": st.booleans(), "string": st.text(), "bytes": st.binary()}
EVERY_SCALAR = descriptor_set(
    file("scalars.proto", message("Scalars", *(f"{kind} of_{kind} = {number + 1}" for number, kind in enumerate(SCALARS))))
)


def decoded(values: dict[str, Any], descriptors: bytes = SHOP, name: str = "shop.Order") -> dict[str, Any]:
    """The row of a message with those values, after its way through bytes."""
    data = message_class(descriptors, name)(**values).SerializeToString()
    return RowDecoder(MessageTypes(descriptors)[name])(data)


def refused(data: bytes, reason: str, descriptors: bytes = SHOP, name: str = "shop.Order") -> None:
    with pytest.raises(NoValue, match=reason):
        RowDecoder(MessageTypes(descriptors)[name])(data)


def test_messages_and_lists_and_maps_nest() -> None:
    pen, ink = {"name": "pen", "count": 2}, {"name": "ink", "count": 0}
    row = decoded({"id": 7, "items": [pen, ink], "by_name": {"p": pen}, "changes": [-1, 2], "address": {"street": "s"}})
    assert row == {**UNSET, "id": 7, "items": [pen, ink], "by_name": [("p", pen)], "changes": [-1, 2], "address": {"street": "s"}}


def test_an_empty_value_is_a_message_with_nothing_set() -> None:
    assert RowDecoder(MessageTypes(SHOP)["shop.Order"])(b"") == UNSET


def test_a_field_with_presence_tells_its_default_from_nothing() -> None:
    assert decoded({"discount": 0}) == {**UNSET, "discount": 0}


@pytest.mark.parametrize(
    ("values", "row"), [({"card": ""}, {"card": ""}), ({"voucher": {}}, {"voucher": {"name": "", "count": 0}})]
)
def test_of_a_oneof_only_the_member_that_is_set_has_a_value(values: dict[str, Any], row: dict[str, Any]) -> None:
    assert decoded(values) == {**UNSET, **row}


def test_a_field_may_be_named_as_a_method_of_messages() -> None:
    fields = "optional int32 HasField = 1", "int32 FromString = 2", "int32 class = 3"
    values = {"HasField": 1, "FromString": 2, "class": 3}
    assert decoded(values, descriptor_set(file("a.proto", message("A", *fields))), "shop.A") == values


def test_enums_are_names_and_a_number_without_one_is_text() -> None:
    row = decoded({"color": 9, "wishes": [0, 1, -3], "colors": {1: 1, 2: 5}})
    assert (row["color"], row["wishes"], dict(row["colors"])) == ("9", ["RED", "GREEN", "-3"], {1: "GREEN", 2: "5"})


@pytest.mark.parametrize(
    ("seconds", "nanos", "micros"),
    [
        (0, 0, 0),
        (-1, 999, -1_000_000),
        (1, 999_999_999, 1_999_999),
        (-62_135_596_800, 0, -62_135_596_800_000_000),
        (253_402_300_799, 999_999_999, 253_402_300_799_999_999),
    ],
)
def test_a_timestamp_is_microseconds_rounded_down(seconds: int, nanos: int, micros: int) -> None:
    assert decoded({"at": {"seconds": seconds, "nanos": nanos}})["at"] == micros


@pytest.mark.parametrize(("seconds", "nanos"), [(-62_135_596_801, 0), (253_402_300_800, 0), (2**62, 0), (0, -1), (0, 10**9)])
def test_a_timestamp_that_is_none_is_refused(seconds: int, nanos: int) -> None:
    with pytest.raises(NoValue, match="outside the years 1 to 9999"):
        decoded({"at": {"seconds": seconds, "nanos": nanos}})


def test_a_duration_is_seconds_and_nanoseconds() -> None:
    assert decoded({"after": {"seconds": -1, "nanos": -5}})["after"] == {"seconds": -1, "nanos": -5}


@given(st.fixed_dictionaries({f"of_{kind}": values for kind, values in SCALARS.items()}))
def test_scalars_come_back_as_they_went(values: dict[str, Any]) -> None:
    row = decoded(values, EVERY_SCALAR, "shop.Scalars")
    assert {name: repr(value) for name, value in row.items()} == {name: repr(value) for name, value in values.items()}


def test_unknown_fields_are_left_out() -> None:
    assert RowDecoder(MessageTypes(SHOP)["shop.Order"])(b"\xf8\x07\x05\x08\x01") == {**UNSET, "id": 1}


@pytest.mark.parametrize("data", [b"\xff", b"\x08", b"\x12\x05\x0a\x03pen"[:-1], b"not a message", b"\x32\x01\xff"])
def test_what_does_not_parse_is_refused(data: bytes) -> None:
    refused(data, "Error parsing message")


@pytest.mark.parametrize(
    ("data", "field"),
    [(b"\x0a\x01a", 1), (b"\x10\x01", 2), (b"\x12\x02\x08\x01", 1), (b"\x22\x04\x08\x01\x12\x00", 4), (b"\x42\x01\x01", 8)],
    ids=["a text for a number", "a number for a message", "in a nested message", "in a map", "a text for an enum"],
)
def test_a_field_of_another_wire_type_is_refused(data: bytes, field: int) -> None:
    refused(data, f"field {field} has the wire type")


def test_a_proto2_message_has_its_declared_defaults() -> None:
    assert decoded({"id": 1}, OLD, "shop.Old") == {"id": 1, "count": 7, "size": "M", "sizes": [], "by_id": []}


@pytest.mark.parametrize(
    "data",
    [b"\x20\x09\x28\x01\x28\x09", b"\x2a\x02\x09\x01", b"\x28\x01\x32\x04\x08\x01\x10\x09"],
    ids=["one by one", "packed", "in a map"],
)
def test_a_number_that_a_proto2_enum_lacks_is_an_unknown_field(data: bytes) -> None:
    row = RowDecoder(MessageTypes(OLD)["shop.Old"])(b"\x08\x01" + data)
    assert row == {"id": 1, "count": 7, "size": "M", "sizes": ["M"], "by_id": []}


def test_what_a_proto2_message_may_not_be() -> None:
    refused(b"", "a required field is absent", OLD, "shop.Old")
    refused(b"\x08\x01\x12\x01\xff", "text that is no UTF-8", OLD, "shop.Old")


@given(st.binary(max_size=40), st.sampled_from([(SHOP, "shop.Order"), (OLD, "shop.Old"), (EVERY_SCALAR, "shop.Scalars")]))
def test_any_bytes_are_a_row_or_have_a_reason(data: bytes, of: tuple[bytes, str]) -> None:
    for framing in ("none", "confluent"):
        row, reason = value_decoder(*of, framing)(data)
        assert (row is None) == (reason is not None)


@given(st.binary(max_size=20), st.integers(0, 60))
def test_a_value_that_is_cut_off_never_gives_what_it_did_not_have(tail: bytes, length: int) -> None:
    values = {"id": 5, "card": "c" * 20, "items": [{"name": tail.hex(), "count": 3}]}
    data = message_class(SHOP, "shop.Order")(**values).SerializeToString()
    row, _ = value_decoder(SHOP, "shop.Order", "none")(data[:length])
    if row is not None:
        assert all(row[name] in (value, UNSET.get(name)) for name, value in values.items() if name in row)


def zigzag(number: int) -> bytes:
    rest, data = (number << 1) ^ (number >> 31), b""
    while rest > 0x7F:
        data, rest = data + bytes([rest & 0x7F | 0x80]), rest >> 7
    return data + bytes([rest])


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5), st.binary(max_size=4))
def test_message_indexes_are_read_to_their_end(path: list[int], rest: bytes) -> None:
    indexes = zigzag(len(path)) + b"".join(map(zigzag, path))
    assert read_indexes(b"\0abcd" + indexes + rest, 5) == (tuple(path), 5 + len(indexes))


@pytest.mark.parametrize(
    "indexes",
    [b"", b"\x01\x00", b"\x04\x00", b"\x80", b"\xff\xff\xff\xff\x0f", b"\x02" + b"\x80" * 6 + b"\x01"],
    ids=["none", "a count below 0", "one of two", "half a count", "a count beyond the bytes", "an index of seven bytes"],
)
def test_bytes_that_are_no_message_indexes(indexes: bytes) -> None:
    with pytest.raises(ValueError, match=r"no varint|message indexes"):
        read_indexes(indexes, 0)


def test_the_path_of_a_nested_type_counts_the_types_of_map_fields_or_does_not() -> None:
    types = MessageTypes(SHOP)
    assert index_paths(types["shop.Item"]) == {(0,)}
    assert index_paths(types["shop.Order"]) == {(1,)}
    assert index_paths(types["shop.Order.Address"]) == {(1, 0), (1, 2)}


FRAME = b"\0\0\0\0\7"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (FRAME + b"\x02\x02\x08\x05", None),
        (FRAME + b"\x02\x02", None),
        (FRAME + b"\x00\x08\x05", r"has the message indexes [0], which are not those of shop.Order"),
        (FRAME + b"\x04\x02\x00\x08\x05", r"has the message indexes [1, 0], which are not those of shop.Order"),
        (FRAME + b"\x01\x02", "no message indexes follow the schema id"),
        (FRAME, "no message indexes follow the schema id"),
        (FRAME + b"\x02\x02\x08", "no Protobuf value of shop.Order"),
    ],
)
def test_a_frame_is_decoded_if_its_indexes_name_the_message(value: bytes, reason: str | None) -> None:
    row, found = value_decoder(SHOP, "shop.Order", "confluent")(value)
    if reason is None:
        assert row == {**UNSET, "id": 5 if len(value) > 7 else 0}
    else:
        assert found is not None
        assert found.endswith(reason)


def test_a_first_type_has_a_short_and_a_long_frame() -> None:
    decode = value_decoder(SHOP, "shop.Item", "confluent")
    for indexes in (b"\x00", b"\x02\x00"):
        assert decode(FRAME + indexes + b"\x10\x03") == ({"name": "", "count": 3}, None)
