"""Generated messages against kio: the same values, and the same bytes, for every API and version."""

import functools
import importlib
import subprocess
import sys
from typing import Any, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from libs.wire.api_keys import ApiKey
from libs.wire.generate import GENERATED, module_text
from libs.wire.primitives import STRING_BYTES_MAX, ProtocolError, Reader, Writer
from tests.wire.kio_messages import encode, message_class, messages, plain

CASES = [
    pytest.param(key, side, version, id=f"{key.name.lower()}-{side}-v{version}")
    for key, (first, last) in GENERATED.items()
    for version in range(first, last + 1)
    for side in ("request", "response")
]


@functools.cache
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
    cls = get_type_hints(getattr(module, f"read_{side}"))["return"]
    writer = Writer()
    getattr(module, f"write_{side}")(writer, _filled(cls), version)
    for length in range(len(writer.buffer)):
        with pytest.raises(ProtocolError):
            getattr(module, f"read_{side}")(Reader(memoryview(writer.buffer)[:length]), version)


def _filled(cls: Any) -> Any:
    """A message with one element in each array and no nulls, so that a cut can fall into any of its fields."""
    message = cls()
    module = importlib.import_module(cls.__module__)
    samples = {"int": 1, "str": "name", "bytes": b"\1" * 16}
    for name, hint in cls.__init__.__annotations__.items():
        if "list[" in hint:
            kind = hint.split("list[")[1].split("]")[0]
            setattr(message, name, [samples[kind] if kind in samples else _filled(getattr(module, kind))])
        elif name != "return" and getattr(message, name) is None and "str" in hint:
            setattr(message, name, "name")
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
    assert module.RequestPartitionData.__slots__ == ("partition_index",)
    assert "leader_id" in module.ResponsePartitionData.__slots__
    assert "partitions: list[RequestPartitionData]" in module_text(ApiKey.DESCRIBE_QUORUM, 0, 2)


def test_messages_are_equal_by_their_fields_and_have_no_hash() -> None:
    module = codec(ApiKey.DELETE_TOPICS)
    request = module.DeleteTopicsRequest(topic_names=["a"], timeout_ms=5)
    assert request == module.DeleteTopicsRequest(topic_names=["a"], timeout_ms=5)
    assert request != module.DeleteTopicsRequest(topic_names=["b"], timeout_ms=5)
    assert module.DeleteTopicsRequest() != module.DeleteTopicsResponse()
    with pytest.raises(TypeError, match="unhashable"):
        hash(request)


def test_a_message_is_shown_with_its_fields_in_kafkas_order() -> None:
    module = codec(ApiKey.DELETE_TOPICS)
    response = module.DeleteTopicsResponse(responses=[module.DeletableTopicResult(name="a", error_code=3)])
    assert repr(response.responses[0]).startswith("DeletableTopicResult(name='a', topic_id=b'")
    assert repr(response) == f"DeleteTopicsResponse(throttle_time_ms=0, responses=[{response.responses[0]!r}])"


def test_messages_do_not_share_their_lists_and_structs() -> None:
    topics = codec(ApiKey.DELETE_TOPICS)
    assert topics.DeleteTopicsRequest().topics is not topics.DeleteTopicsRequest().topics
    partitions = codec(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
    assert partitions.DescribeTopicPartitionsRequest().cursor is None
    given: list[str] = []
    assert topics.DeleteTopicsRequest(topic_names=given).topic_names is given


def test_no_generated_message_makes_code_when_it_is_imported() -> None:
    """A dataclass compiles its methods from text, whose file is called `<string>`. No bytecode cache holds that."""
    modules = [f"libs.wire.messages.{key.name.lower()}" for key in GENERATED]
    program = f"""
import dataclasses, importlib, sys
made = []
importlib.import_module("libs.wire.primitives")
sys.addaudithook(lambda event, given: made.append(given[1]) if event == "compile" and given[1] == "<string>" else None)
dataclasses.make_dataclass("Counted", ["field"])
assert made, "the hook hears of dataclasses"
made.clear()
for name in {modules}:
    importlib.import_module(name)
print(made)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("version", [0, 1])
def test_an_error_that_quotes_a_long_name_is_cut_to_what_a_string_may_have(version: int) -> None:
    module = codec(ApiKey.DESCRIBE_CLIENT_QUOTAS)
    writer = Writer()
    message = "Unsupported entity type " + "\u00fc" * 32_767
    module.write_response(writer, module.DescribeClientQuotasResponse(error_code=35, error_message=message), version)
    told = module.read_response(Reader(memoryview(writer.buffer)), version).error_message
    assert len(told.encode()) in (STRING_BYTES_MAX - 1, STRING_BYTES_MAX)
    assert message.startswith(told)
