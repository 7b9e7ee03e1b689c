"""Records at the edges: nulls, empties, headers, any bytes, a megabyte. Each library reads what each library wrote."""

import pytest

from tests.compat.clients.admin import Admin
from tests.compat.clients.five_clients import CLIENTS, LIBRARIES, Kcat, Record
from tests.compat.kafka.tools import run_kcat

HEADERS = (("trace", b"00-ab"), ("trace", b"again"), ("ünï", "wert ✓".encode()), ("empty", b""))
ODD = [
    Record(None, b"no key"),
    Record(b"no value", None),
    Record(b"", b""),
    Record("schlüssel-鍵-🔑".encode(), "wert-値-💧".encode()),
    Record(bytes(range(256)), bytes(range(255, -1, -1))),
    Record(b"with headers", b"value", HEADERS),
    Record(None, b"", (("h", b"1"),)),
    Record(b"after", b"all"),
]
NOTHING = Record(None, None)  # only librdkafka will write it
# The largest value that fits into max.message.bytes beside the batch's and the record's own bytes.
MEGABYTE = 1_048_588 - 61 - 20


@pytest.mark.parametrize("writer", LIBRARIES)
def test_odd_records_come_back_as_they_were_written(bootstrap: str, admin: Admin, topic: str, writer: str) -> None:
    admin.create(topic)
    records = [*ODD, NOTHING] if writer == "confluent-kafka" else ODD
    CLIENTS[writer].write(bootstrap, topic, records)
    for reader in LIBRARIES:
        assert CLIENTS[reader].read(bootstrap, topic, len(records)) == records, f"as {reader} reads it"
    without_headers = [Record(record.key, record.value) for record in records]
    assert Kcat().read(bootstrap, topic, len(records)) == without_headers


@pytest.mark.parametrize("writer", LIBRARIES)
def test_records_of_a_megabyte_come_back_whole(bootstrap: str, admin: Admin, topic: str, writer: str) -> None:
    admin.create(topic)
    large = [Record(None, bytes([number]) * MEGABYTE) for number in range(5)]
    records = [Record(b"small", b"before"), *large, Record(b"small", b"after")]
    CLIENTS[writer].write(bootstrap, topic, records)
    for reader in LIBRARIES:
        assert CLIENTS[reader].read(bootstrap, topic, len(records)) == records, f"as {reader} reads it"


def test_kcat_writes_null_keys_null_values_and_headers(bootstrap: str, admin: Admin, topic: str) -> None:
    admin.create(topic)
    where = ("-b", bootstrap, "-t", topic, "-p", "0")
    run_kcat("-P", *where, "-Z", "-K", ":", "-H", "who=kcat", "-H", "why=because", stdin=b"key:\n:value\nboth:sides\n")
    headers = (("who", b"kcat"), ("why", b"because"))
    expected = [Record(b"key", None, headers), Record(None, b"value", headers), Record(b"both", b"sides", headers)]
    for reader in LIBRARIES:
        assert CLIENTS[reader].read(bootstrap, topic, 3) == expected, f"as {reader} reads it"
    shown = run_kcat("-C", "-e", "-q", *where, "-o", "beginning", "-f", "%o %h %k=%s\n").text
    assert shown.splitlines() == [
        "0 who=kcat,why=because key=",
        "1 who=kcat,why=because =value",
        "2 who=kcat,why=because both=sides",
    ]
