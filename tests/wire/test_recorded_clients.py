"""What librdkafka, Java's tools and aiokafka really sent (`record_clients.py`) is understood, and is what we would write."""

import importlib
from collections.abc import Iterator
from typing import Any

import pytest

from libs.wire.api_keys import ApiKey
from libs.wire.headers import RequestHeader, read_request_header
from libs.wire.messages.fetch import read_fetch
from libs.wire.messages.produce import read_produce
from libs.wire.primitives import Reader, Writer
from libs.wire.record_batches.batches import iter_batches
from libs.wire.record_batches.records import iter_records
from tests.wire.recorded_requests import CLIENTS, frames_of


def requests(client: str) -> Iterator[tuple[RequestHeader, Reader]]:
    """The header and body of each recorded frame."""
    for frame in frames_of(client):
        reader = Reader(memoryview(bytearray(frame)))
        yield read_request_header(reader), reader


def of_api(client: str, key: ApiKey) -> list[tuple[int, Reader]]:
    requests_of_api = [(header.api_version, reader) for header, reader in requests(client) if header.api_key is key]
    assert requests_of_api, f"{client} sent no {key.name}"
    return requests_of_api


@pytest.mark.parametrize("client", CLIENTS)
def test_each_request_is_read_to_its_end_and_written_as_it_came(client: str) -> None:
    compared = set()
    for header, reader in requests(client):
        if header.api_key in (ApiKey.PRODUCE, ApiKey.FETCH):
            continue
        module: Any = importlib.import_module(f"libs.wire.messages.{header.api_key.name.lower()}")
        start = reader.position
        request = module.read_request(reader, header.api_version)
        reader.expect_end()
        if hasattr(module, "write_request"):
            writer = Writer()
            module.write_request(writer, request, header.api_version)
            assert bytes(writer.buffer) == bytes(reader.view[start:]), (header, request)
            compared.add(header.api_key)
    assert compared >= {ApiKey.API_VERSIONS, ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.LIST_OFFSETS}


@pytest.mark.parametrize("client", CLIENTS)
def test_produced_records_are_found_in_the_request(client: str) -> None:
    values: list[bytes | None] = []
    for version, reader in of_api(client, ApiKey.PRODUCE):
        request = read_produce(reader, version)
        reader.expect_end()
        assert request.acks == -1
        for topic in request.topics:
            for _, records in topic.partitions:
                assert records is not None
                values += [record.value for batch in iter_batches(records) for record in iter_records(batch.view)]
    assert values[0] in (b"value 0", b"one")


@pytest.mark.parametrize("client", CLIENTS)
def test_fetched_partitions_are_found_in_the_request(client: str) -> None:
    for version, reader in of_api(client, ApiKey.FETCH):
        request = read_fetch(reader, version)
        reader.expect_end()
        assert request.max_bytes > 0
        assert [wanted.fetch_offset for topic in request.topics for wanted in topic.partitions][:1] in ([], [0], [1], [2], [5])
