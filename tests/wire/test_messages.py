"""Generated messages against kio: the same values, and the same bytes, for every API and version."""

import dataclasses
import importlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from libs.wire.api_keys import ApiKey
from libs.wire.generate import GENERATED, module_text
from libs.wire.primitives import ProtocolError, Reader, Writer
from tests.wire.kio_messages import encode, message_class, messages, plain

CASES = [
    pytest.param(key, side, version, id=f"{key.name.lower()}-{side}-v{version}")
    for key, (first, last) in GENERATED.items()
    for version in range(first, last + 1)
    for side in ("request", "response")
]


def codec(key: ApiKey) -> Any:
    return importlib.import_module(f"libs.wire.messages.{key.name.lower()}")


def same(ours: Any, theirs: Any) -> bool:
    """Whether each value of the version is the same. A field that the version lacks has our default."""
    if isinstance(theirs, dict):
        return all(same(getattr(ours, name), value) for name, value in theirs.items())
    if isinstance(theirs, list):
        return len(ours) == len(theirs) and all(same(a, b) for a, b in zip(ours, theirs, strict=True))
    return bool(ours == theirs)


@pytest.mark.parametrize(("key", "side", "version"), CASES)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_values_and_bytes_are_those_of_kio(key: ApiKey, side: str, version: int, data: st.DataObject) -> None:
    theirs = data.draw(messages(message_class(key.name.lower(), side, version)))
    encoded = encode(theirs)
    module = codec(key)
    reader = Reader(memoryview(encoded))
    ours = getattr(module, f"read_{side}")(reader, version)
    reader.expect_end()
    assert same(ours, plain(theirs))
    writer = Writer()
    getattr(module, f"write_{side}")(writer, ours, version)
    assert bytes(writer.buffer) == encoded


@pytest.mark.parametrize(("key", "side", "version"), CASES)
def test_every_cut_of_a_message_is_refused(key: ApiKey, side: str, version: int) -> None:
    module = codec(key)
    cls = getattr(module, f"read_{side}").__annotations__["return"]
    writer = Writer()
    getattr(module, f"write_{side}")(writer, _filled(cls), version)
    for length in range(len(writer.buffer)):
        with pytest.raises(ProtocolError):
            getattr(module, f"read_{side}")(Reader(memoryview(writer.buffer)[:length]), version)


def _filled(cls: type) -> Any:
    """A message with one element in each array and no nulls, so that a cut can fall into any of its fields."""
    message = cls()
    module = importlib.import_module(cls.__module__)
    samples = {"int": 1, "str": "name", "bytes": b"\1" * 16}
    for field in dataclasses.fields(cls):
        hint = str(field.type)
        if "list[" in hint:
            kind = hint.split("list[")[1].split("]")[0].rpartition(".")[2]
            setattr(message, field.name, [samples[kind] if kind in samples else _filled(getattr(module, kind))])
        elif getattr(message, field.name) is None and "str" in hint:
            setattr(message, field.name, "name")
    return message


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(GENERATED)), st.data())
def test_whatever_bytes_arrive_only_protocol_errors_come_out(key: ApiKey, data: st.DataObject) -> None:
    first, last = GENERATED[key]
    version = data.draw(st.integers(first, last))
    garbage = data.draw(st.binary(max_size=200))
    reader = Reader(memoryview(garbage))
    try:
        codec(key).read_request(reader, version)
        reader.expect_end()
    except ProtocolError:
        pass


def test_unknown_tagged_fields_are_skipped() -> None:
    module = codec(ApiKey.DELETE_TOPICS)
    writer = Writer()
    module.write_request(writer, module.DeleteTopicsRequest(timeout_ms=5), 6)
    body = bytes(writer.buffer[:-1]) + bytes([2, 7, 3]) + b"abc" + bytes([0x90, 0x4E, 1]) + b"z"
    reader = Reader(memoryview(body))
    assert module.read_request(reader, 6).timeout_ms == 5
    reader.expect_end()


def test_a_known_tagged_field_must_fill_its_size() -> None:
    module = codec(ApiKey.API_VERSIONS)
    writer = Writer()
    module.write_response(writer, module.ApiVersionsResponse(finalized_features_epoch=7), 3)
    body = bytearray(writer.buffer)
    assert body[-10:-8] == bytes([1, 8])
    body[-9] = 9
    with pytest.raises(ProtocolError, match="after the end"):
        module.read_response(Reader(memoryview(bytes(body) + b"\0")), 3)


def test_null_where_a_version_has_none_is_refused_by_the_writer() -> None:
    module = codec(ApiKey.DELETE_TOPICS)
    response = module.DeleteTopicsResponse(responses=[module.DeletableTopicResult(name=None)])
    module.write_response(Writer(), response, 6)
    with pytest.raises(ValueError, match="null"):
        module.write_response(Writer(), response, 5)


def test_field_names_are_those_of_kafka() -> None:
    text = module_text(ApiKey.INIT_PRODUCER_ID, 0, 6)
    assert "transaction_timeout_ms: int" in text
    assert "enable_2pc: bool" in text


def test_structs_of_one_name_that_differ_between_request_and_response_are_told_apart() -> None:
    module = codec(ApiKey.DESCRIBE_QUORUM)
    assert [field.name for field in dataclasses.fields(module.RequestPartitionData)] == ["partition_index"]
    assert "leader_id" in [field.name for field in dataclasses.fields(module.ResponsePartitionData)]
    assert "partitions: list[RequestPartitionData]" in module_text(ApiKey.DESCRIBE_QUORUM, 0, 2)
