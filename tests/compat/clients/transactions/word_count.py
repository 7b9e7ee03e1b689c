"""An application of Kafka Streams with `exactly_once_v2`, a process of its own."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tests.compat.clients.transactions.program import Program
from tests.compat.kafka.jars import STREAMS, KafkaJars
from tests.compat.kafka.tools import SHORT_LIVED
from tests.support.requirements import ROOT, require

WORD_COUNT = Path(__file__).parent / "programs" / "WordCount.java"


def word_count(
    bootstrap: str, lines: str, counts: str, name: str, directory: Path, settings: Mapping[str, str] = MappingProxyType({})
) -> Program:
    """An instance of the application. `directory` keeps its state, and the id of which its transactional id is made."""
    require("java", "kafka-streams")
    directory.mkdir()
    (unpacked := directory / "unpacked").mkdir()
    strings = "org.apache.kafka.common.serialization.Serdes$StringSerde"
    usual = {
        "bootstrap.servers": bootstrap,
        "application.id": counts,
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": 500,
        "producer.linger.ms": 0,  # counts reach the brokers long before their transaction is committed
        "producer.transaction.timeout.ms": 5000,  # the next owner of a task waits so long for a killed one
        "statestore.cache.max.bytes": 0,  # with a cache, not every count is written
        "state.dir": directory / "state",
        "default.key.serde": strings,
        "default.value.serde": strings,
        "acceptable.recovery.lag": 1_000_000_000,  # an instance without state gets its share at once
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 500,
    }
    file = directory / "streams.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in {**usual, **settings}.items()), encoding="utf-8")
    options = (*SHORT_LIVED, f"-Djava.io.tmpdir={unpacked}")  # RocksDB's library, which a killed process leaves
    command = KafkaJars(ROOT, STREAMS).command(str(WORD_COUNT), str(file), lines, counts, name, options=options)
    return Program(command, directory / "process")
