"""The options of the sink: read from Spark's, refused with one sentence each."""

from collections.abc import Mapping
from dataclasses import dataclass

from libs.client.security import NO_SECURITY, Security
from libs.host_port import split_port
from libs.wire.record_batches.batch_layout import Codec
from services.pipeline.sink.client.errors import SinkError
from services.pipeline.spark.cluster_security import read_security, security_problem

BOOTSTRAP = "kafka.bootstrap.servers"
SECURITY_OPTIONS = {
    "protocol": "kafka.security.protocol",
    "mechanism": "kafka.sasl.mechanism",
    "user": "kafka.sasl.username",
    "password_file": "password.file",
    "password_variable": "password.variable",
    "ca_file": "ca.file",
    "certificate_file": "certificate.file",
}
"""The option of each field of `Security`."""
CODECS = {codec.name.lower(): int(codec) for codec in Codec}
DEFAULTS = {
    "topic": "",
    "sink.id": "",
    "epoch": "",
    "ledger.topic": "_penstock_sink_ledger",
    "kafka.compression.type": "none",
    "batch.bytes": "900000",
    "kafka.transaction.timeout.ms": "300000",
    "fenced.wait.ms": "60000",
}
NOT_OURS = frozenset({"checkpointlocation", "path", "queryname"})
"""Options that Spark reads, and hands to the sink as well."""


@dataclass(frozen=True)
class SinkOptions:
    """`topic`: None if rows name theirs. `sink_id` and `epoch`: None if Spark's query and batch give them."""

    bootstrap: tuple[tuple[str, int], ...]
    topic: str | None
    sink_id: str | None
    epoch: int | None
    ledger_topic: str
    codec: int
    batch_bytes: int
    transaction_timeout_ms: int
    fenced_wait_ms: int
    security: Security = NO_SECURITY


def read_options(given: Mapping[str, str]) -> SinkOptions:
    """Names are matched without case, as Spark does. Raises SinkError."""
    options = {name.lower(): value for name, value in given.items()}
    known = {BOOTSTRAP, *SECURITY_OPTIONS.values(), *DEFAULTS}
    for name in options:
        if name not in known and name not in NOT_OURS:
            raise SinkError(f"the sink has no option {name}; it has {', '.join(sorted(known))}")
    if BOOTSTRAP not in options:
        raise SinkError(f"the option {BOOTSTRAP} is missing: host:port of one gateway or more, with commas between them")
    values = DEFAULTS | options
    codec = values["kafka.compression.type"].lower()
    if codec not in CODECS:
        raise SinkError(f"kafka.compression.type={codec} is none of {', '.join(CODECS)}")
    return SinkOptions(
        _addresses(options[BOOTSTRAP]),
        values["topic"] or None,
        _sink_id(values["sink.id"]),
        _number("epoch", values["epoch"], 0, 1 << 62) if values["epoch"] else None,
        values["ledger.topic"],
        CODECS[codec],
        _number("batch.bytes", values["batch.bytes"], 1_000, 100_000_000),
        _number("kafka.transaction.timeout.ms", values["kafka.transaction.timeout.ms"], 1_000, 1 << 31),
        _number("fenced.wait.ms", values["fenced.wait.ms"], 0, 1 << 31),
        _security(options),
    )


def _security(options: Mapping[str, str]) -> Security:
    protocol = SECURITY_OPTIONS["protocol"]
    given = {**options, **({protocol: options[protocol].upper()} if protocol in options else {})}
    security = read_security(lambda name: given.get(SECURITY_OPTIONS[name]))
    if problem := security_problem(security):
        name, reason = problem
        raise SinkError(f"{SECURITY_OPTIONS[name]}: {reason}")
    return security


def _addresses(text: str) -> tuple[tuple[str, int], ...]:
    addresses = []
    for address in text.split(","):
        host, port = split_port(address.strip())
        if not host or not port.isdigit() or not 0 < int(port) < 65_536:
            raise SinkError(f"{BOOTSTRAP} has {address.strip()!r}: an address is host:port, for instance 127.0.0.1:9092")
        addresses.append((host, int(port)))
    return tuple(addresses)


def _sink_id(text: str) -> str | None:
    if "/" in text or len(text) > 200:
        raise SinkError(f"sink.id={text[:40]!r} is not allowed: it has at most 200 characters and no slash")
    return text or None


def _number(name: str, text: str, least: int, most: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise SinkError(f"{name}={text} is not allowed: it is a whole number from {least} to {most}")
    return number
