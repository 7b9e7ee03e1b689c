"""Request and response headers, against kio and against what Kafka's brokers accept."""

import importlib

import pytest

from libs.wire.api_keys import ApiKey, first_flexible, request_header_version, response_header_version
from libs.wire.headers import (
    RequestHeader,
    read_request_header,
    read_response_header,
    write_request_header,
    write_response_header,
)
from libs.wire.primitives import ProtocolError, Reader, Writer


@pytest.mark.parametrize(("version", "header_version"), [(8, 1), (9, 2)])
def test_a_header_comes_back_as_it_was(version: int, header_version: int) -> None:
    header = RequestHeader(ApiKey.PRODUCE, version, 7, "producer-1")
    writer = Writer()
    write_request_header(writer, header)
    assert request_header_version(ApiKey.PRODUCE, version) == header_version
    reader = Reader(memoryview(writer.buffer))
    assert read_request_header(reader) == header
    reader.expect_end()


def test_a_null_client_id_is_read_as_empty() -> None:
    frame = b"\0\x12\0\0\0\0\0\1\xff\xff"
    assert read_request_header(Reader(memoryview(frame))).client_id == ""


@pytest.mark.parametrize("frame", [b"", b"\0", b"\0\x12\0\0\0\0\0", b"\0\x12\0\0\0\0\0\1", b"\0\x12\0\0\0\0\0\1\0\5abc"])
def test_a_frame_too_short_for_its_header_is_refused(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_request_header(Reader(memoryview(frame)))


@pytest.mark.parametrize("api_key", [-1, 4, 93, 32767])
def test_an_unknown_api_key_is_refused(api_key: int) -> None:
    frame = api_key.to_bytes(2, "big", signed=True) + b"\0\0\0\0\0\1\xff\xff"
    with pytest.raises(ProtocolError, match=f"unknown api key {api_key}"):
        read_request_header(Reader(memoryview(frame)))


def test_millions_of_tagged_fields_in_an_api_versions_header_are_refused() -> None:
    frame = b"\0\x12\0\3\0\0\0\1\xff\xff" + b"\xc0\x84\x3d" + b"\0\0" * 100
    with pytest.raises(ProtocolError, match="tagged fields"):
        read_request_header(Reader(memoryview(frame)))


@pytest.mark.parametrize("version", range(6))
def test_api_versions_is_always_answered_with_the_oldest_header(version: int) -> None:
    writer = Writer()
    write_response_header(writer, ApiKey.API_VERSIONS, version, 9)
    assert bytes(writer.buffer) == b"\0\0\0\x09"
    assert read_response_header(Reader(memoryview(writer.buffer)), ApiKey.API_VERSIONS, version) == 9


@pytest.mark.parametrize("key", list(ApiKey), ids=lambda key: key.name)
def test_flexible_versions_are_those_of_kio(key: ApiKey) -> None:
    package = f"kio.schema.{key.name.lower()}"
    name = "".join(part.title() for part in key.name.lower().split("_"))
    checked = 0
    for version in range(32):
        try:
            module = importlib.import_module(f"{package}.v{version}.request")
        except ModuleNotFoundError:
            continue
        cls = getattr(module, f"{name}Request")
        assert cls.__api_key__ == key
        assert cls.__flexible__ == (version >= first_flexible(key))
        response = getattr(importlib.import_module(f"{package}.v{version}.response"), f"{name}Response")
        assert request_header_version(key, version) == cls.__header_schema__.__version__
        assert response_header_version(key, version) == response.__header_schema__.__version__
        checked += 1
    assert checked
