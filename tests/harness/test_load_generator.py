"""The load generator in C (`tests/bench/lean/`): its requests, counts and latencies, and its end at answers that are none."""

import shutil
import ssl
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode
from penstock.testing import Cluster

from libs.rpc.transport.tls_server import TlsSettings, server_context
from libs.wire.errors import ErrorCode
from libs.wire.record_batches.batches import ProduceLimits, validate_produce
from tests.bench import frames
from tests.bench.lean.build import FLAGS, SOURCE, error_names
from tests.bench.lean.generator import plan_connections, run_load
from tests.bench.load import BenchError
from tests.bench.sides import Side
from tests.harness.stand_in_broker import StandInBroker, answered, fetched, framed, produced
from tests.support.certificates import Authority, make_authority
from tests.support.requirements import require

pytestmark = pytest.mark.usefixtures("compiler")
TIMESTAMP_MS = 1_700_000_000_000
BATCHES = [bytearray(frames.record_batch(1, 900, TIMESTAMP_MS)) for _ in range(10)]
for number, each in enumerate(BATCHES):
    struct.pack_into(">q", each, 0, number)
LOG = [bytes(each) for each in BATCHES]


@pytest.fixture(scope="session")
def compiler() -> None:
    require("c-compiler")


def batches_of(request: Any) -> list[tuple[int, bytes]]:
    """(partition, record batch) of a Produce."""
    return [(p.index, p.records) for topic in request.topic_data for p in topic.partition_data]


def test_it_compiles_without_a_warning(tmp_path: Path) -> None:
    for path in SOURCE.iterdir():
        shutil.copy(path, tmp_path)
    (tmp_path / "error_names.h").write_text(error_names(), encoding="utf-8")
    argv = ["cc", *FLAGS, "-Wshadow", "-fsyntax-only", str(tmp_path / "load.c")]
    assert subprocess.run(argv, capture_output=True, encoding="utf-8").stderr == ""


@pytest.mark.parametrize(("size", "value_size"), [(16_384, 1000), (16_384, 100), (1024, 1000), (1_000_000, 100), (128, 1000)])
def test_its_batches_are_valid_and_full(size: int, value_size: int) -> None:
    with StandInBroker(produced) as broker:
        options = {"batch-bytes": size, "record-bytes": value_size, "bytes-max": 1}
        loaded = run_load("produce", "lines", [broker.connection(0)], 5, options)
    [(_, batch), *_] = batches_of(broker.requests[0][1])
    header = validate_produce(memoryview(batch), ProduceLimits(), TIMESTAMP_MS + 10**12)
    assert 0.98 * size - value_size <= len(batch) <= size
    assert loaded.records == loaded.requests * header.record_count
    stored = value_size if header.record_count > 1 else size - 73
    assert batch[61:] == frames.record_batch(header.record_count, stored, 0)[61:], "as the generator in Python writes it"


def test_partitions_take_turns_and_each_request_is_answered_once() -> None:
    with StandInBroker(produced) as broker:
        loaded = run_load(
            "produce", "lines", [broker.connection(4, 0, 9), broker.connection(7)], 0.2, {"in-flight": 3, "acks": -1}
        )
    asked = [[index for index, _ in batches_of(request)] for _, request in broker.requests]
    first = [partition for [partition] in asked if partition != 7]
    assert first == ([4, 0, 9] * len(first))[: len(first)]
    assert {request.acks for _, request in broker.requests} == {-1}
    assert 0 < loaded.requests <= len(broker.requests)
    assert loaded.requests == loaded.latency_us["count"]
    assert len(broker.requests) - loaded.requests <= 6, "only what was in flight at the end is left out"
    assert (loaded.loop, loaded.connections, loaded.in_flight, loaded.errors) == ("closed", 2, 3, {})


def test_without_acks_it_counts_what_the_socket_took() -> None:
    with StandInBroker(lambda request: None) as broker:
        loaded = run_load("produce", "lines", [broker.connection(0)], 5, {"acks": 0, "bytes-max": 3_000_000})
    assert loaded.bytes >= 3_000_000
    assert loaded.answer_bytes == 0


def test_an_open_loop_counts_from_the_scheduled_time_so_that_a_stall_shows() -> None:
    """A quarter of the requests is due while the server stalls for 0.3 s. A closed loop sends one of them, and hides the rest."""
    stall_us = 300_000.0
    with StandInBroker(produced) as broker:
        broker.stalls = [(200, stall_us / 1e6)]
        loaded = run_load("produce", "lines", [broker.connection(0)], 1.2, {"rate": 1000, "in-flight": 1, "batch-bytes": 200})
    assert loaded.scheduled == loaded.requests == loaded.latency_us["count"] == len(broker.requests) == 1200
    assert loaded.latency_us["p90"] > 0.4 * stall_us, "a tenth of all requests waited for more than half of the stall"
    assert loaded.latency_us["max"] > 0.99 * stall_us
    assert loaded.woken_late_us["count"] == 1200
    assert loaded.woken_late_us["p50"] < 0.2 * stall_us, "the generator itself did not stall"

    with StandInBroker(produced) as broker:
        broker.stalls = [(200, stall_us / 1e6)]
        closed = run_load("produce", "lines", [broker.connection(0)], 1.2, {"in-flight": 1, "batch-bytes": 200})
    assert closed.latency_us["max"] > 0.99 * stall_us
    assert closed.latency_us["p90"] < 0.2 * stall_us


def test_connections_share_the_schedule() -> None:
    with StandInBroker(produced) as broker:
        loaded = run_load("produce", "lines", [broker.connection(i) for i in range(3)], 0.5, {"rate": 202, "batch-bytes": 200})
    counts = [sum(index == i for _, request in broker.requests for index, _ in batches_of(request)) for i in range(3)]
    assert counts == [34, 34, 33]
    assert loaded.requests == 101


def test_what_has_no_answer_counts_with_its_age() -> None:
    with StandInBroker(lambda request: produced(request) if len(broker.requests) <= 10 else None) as broker:
        options = {"rate": 100, "drain": 0.3, "batch-bytes": 200}
        loaded = run_load("produce", "lines", [broker.connection(0)], 0.4, options)
    assert (loaded.requests, loaded.unanswered, loaded.latency_us["count"]) == (10, 30, 40)
    assert loaded.latency_us["p50"] > 300_000


def test_a_closed_loop_without_answers_has_no_figure() -> None:
    with (
        StandInBroker(lambda request: None) as broker,
        pytest.raises(BenchError, match=r"3 requests had no answer 0\.1 seconds after"),
    ):
        run_load("produce", "lines", [broker.connection(0)], 0.1, {"in-flight": 3, "drain": 0.1})


def test_errors_are_counted_by_name_and_refused_unless_asked_for() -> None:
    def answer(request: Any) -> Any:
        return produced(request, KioErrorCode.not_leader_or_follower if len(broker.requests) % 2 else KioErrorCode.none)

    with StandInBroker(answer) as broker:
        options = {"rate": 100, "batch-bytes": 200}
        loaded = run_load("produce", "lines", [broker.connection(0)], 0.2, options, with_errors=True)
        assert (loaded.requests, loaded.errors) == (10, {ErrorCode.NOT_LEADER_OR_FOLLOWER.name: 10})
        with pytest.raises(BenchError, match="NOT_LEADER_OR_FOLLOWER: 10"):
            run_load("produce", "lines", [broker.connection(0)], 0.2, options)


def test_fetches_go_round_the_log_and_count_whole_batches() -> None:
    """2,000 bytes hold two batches of about 970 and a part of a third, which no consumer may count."""
    with StandInBroker(lambda request: fetched(request, LOG)) as broker:
        options = {"rate": 100, "max-bytes": 2000, "check-crc": True}
        loaded = run_load("fetch", "lines", [broker.connection(3, 5)], 0.1, options)
    asked = [[(p.partition, p.fetch_offset) for p in request.topics[0].partitions] for _, request in broker.requests]
    assert asked[:3] == [[(3, 0), (5, 0)], [(5, 2), (3, 2)], [(3, 4), (5, 4)]], "the first one in a request changes by turns"
    assert [offsets[0][1] for offsets in asked] == [0, 2, 4, 6, 8] * 2
    assert (loaded.requests, loaded.records, loaded.bytes) == (10, 40, 40 * len(LOG[0]))
    assert loaded.throttle_ms == 30
    assert loaded.answer_bytes > loaded.bytes


def test_errors_of_fetches_are_counted_by_name() -> None:
    with StandInBroker(lambda request: fetched(request, LOG, KioErrorCode.offset_out_of_range)) as broker:
        loaded = run_load("fetch", "lines", [broker.connection(0)], 0.1, {"rate": 50}, with_errors=True)
    assert (loaded.requests, loaded.errors) == (0, {"OFFSET_OUT_OF_RANGE": 5})


def damaged(place: int) -> list[bytes]:
    batch = bytearray(LOG[0])
    batch[place] ^= 1
    return [bytes(batch)]


CUT = framed(struct.pack(">i", 0) + b"\0\x02")


@pytest.mark.parametrize(
    ("api", "answer", "sentence"),
    [
        ("produce", lambda request: framed(struct.pack(">i", 99) + b"\0"), "has the correlation id of another"),
        ("produce", lambda request: CUT, "an answer of 6 bytes ends early"),
        ("produce", lambda request: struct.pack(">i", -1), "an answer claims a length of -1 bytes"),
        ("produce", lambda request: struct.pack(">i", 0x7FFFFFFF), "an answer claims a length of 2147483647 bytes"),
        ("produce", lambda request: b"HTTP/1.1 400 Bad Request\r\n", "an answer claims a length of 1213486160 bytes"),
        ("fetch", lambda request: CUT, "an answer of 6 bytes ends early"),
        ("fetch", lambda request: fetched(request, []), "partition 0 is empty: there is nothing to fetch"),
        ("fetch", lambda request: fetched(request, damaged(16)), "holds bytes that are no record batch of magic 2"),
        ("fetch", lambda request: fetched(request, [LOG[1], LOG[0]]), "holds record batches whose offsets do not rise"),
    ],
)
def test_it_ends_with_a_sentence_at_an_answer_that_is_none(api: str, answer: Any, sentence: str) -> None:
    with StandInBroker(answer) as broker, pytest.raises(BenchError, match=f"^load: 127.0.0.1:{broker.port}/0: .*{sentence}"):
        run_load(api, "lines", [broker.connection(0)], 0.2)


@pytest.mark.parametrize("missing", [1, 2, 9, 14, 20])
@pytest.mark.parametrize("api", ["produce", "fetch"])
def test_an_answer_that_is_cut_anywhere_ends_early(api: str, missing: int) -> None:
    """Its frame claims no more than it has. `missing`: bytes from the end."""

    def cut(request: Any) -> bytes:
        whole = answered(0, produced(request) if api == "produce" else fetched(request, LOG[:1]))
        return framed(whole[4:-missing])

    with StandInBroker(cut) as broker, pytest.raises(BenchError, match=r"an answer of \d+ bytes ends early"):
        run_load(api, "lines", [broker.connection(0)], 0.1, {"in-flight": 1})


def test_a_wrong_crc_is_told_to_those_who_ask() -> None:
    with StandInBroker(lambda request: fetched(request, damaged(200))) as broker:
        run_load("fetch", "lines", [broker.connection(0)], 0.1, {"rate": 10})
        with pytest.raises(BenchError, match="holds a record batch whose CRC is wrong"):
            run_load("fetch", "lines", [broker.connection(0)], 0.1, {"rate": 10, "check-crc": True})


def test_a_server_that_hangs_up_or_is_not_there_is_named() -> None:
    def hang_up(request: Any) -> Any:
        raise ConnectionError

    with StandInBroker(hang_up) as broker, pytest.raises(BenchError, match=r"closed the connection|reset by peer"):
        run_load("produce", "lines", [broker.connection(0)], 0.2, {"in-flight": 1})
    with pytest.raises(BenchError, match="cannot connect: Connection refused"):
        run_load("produce", "lines", [broker.connection(0)], 0.2)


@pytest.mark.parametrize(
    ("leaders", "connections", "plan"),
    [
        (["a"], 2, ["a:1/0", "a:1/0"]),
        (["a", "b", "a"], 3, ["a:1/0", "b:1/1", "a:1/2"]),
        (["a", "a", "a"], 2, ["a:1/0,2", "a:1/1"]),
        (["a", "b", "a", "b", "a"], 3, ["a:1/0,4", "b:1/1,3", "a:1/2"]),
    ],
)
def test_connections_are_planned_so_that_each_partition_has_its_leader(
    leaders: list[str], connections: int, plan: list[str]
) -> None:
    assert plan_connections([(host, 1) for host in leaders], connections) == plan


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_it_speaks_tls_in_both_directions(authority: Authority, version: ssl.TLSVersion) -> None:
    """Batches and answers are many records long. The socket takes some of what is in flight at once."""
    tls = server_context(TlsSettings(str(authority.sign("server", "/CN=server"))))
    tls.maximum_version = version
    large = [struct.pack(">q", offset) + LOG[0][8:] for offset in range(200)]
    options: dict[str, object] = {"tls-authority": authority.certificate, "bytes-max": 5_000_000}
    with StandInBroker(produced, tls=tls) as broker:
        connections = [broker.connection(0), broker.connection(1)]
        sent = run_load("produce", "lines", connections, 20, {"batch-bytes": 900_000, **options})
        assert all(len(batch) > 890_000 for _, request in broker.requests for _, batch in batches_of(request))
    with StandInBroker(lambda request: fetched(request, large), tls=tls) as broker:
        read = run_load("fetch", "lines", [broker.connection(0)], 20, {"max-bytes": 90_000, "check-crc": True, **options})
    assert min(sent.bytes, read.bytes) >= 5_000_000
    assert {sent.tls.split()[0], read.tls.split()[0]} == {"TLSv1.2" if version is ssl.TLSVersion.TLSv1_2 else "TLSv1.3"}
    assert "GCM" in sent.tls


def test_it_does_not_trust_a_stranger(authority: Authority, tmp_path: Path) -> None:
    tls = server_context(TlsSettings(str(authority.sign("server", "/CN=server"))))
    stranger = make_authority(tmp_path / "stranger")
    with StandInBroker(produced, tls=tls) as broker, pytest.raises(BenchError, match="no TLS: certificate verify failed"):
        run_load("produce", "lines", [broker.connection(0)], 0.2, {"tls-authority": stranger.certificate})
    with pytest.raises(BenchError, match="no-such-file"):
        run_load("produce", "lines", ["127.0.0.1:1/0"], 0.2, {"tls-authority": "no-such-file"})


def test_penstock_takes_its_load_and_gives_it_back(penstock_session_cluster: Cluster) -> None:
    side = Side("penstock", penstock_session_cluster.bootstrap_servers)
    side.create_topic("loaded", 3)
    plan = plan_connections(side.leaders("loaded"), 2)
    stored = run_load("produce", "loaded", plan, 10, {"bytes-max": 2_000_000, "acks": -1})
    read = run_load("fetch", "loaded", plan, 10, {"bytes-max": 4_000_000, "max-bytes": 65_536})
    assert stored.records == stored.requests * 16
    assert read.bytes >= 4_000_000
    assert read.bytes // read.records == stored.bytes // stored.records
