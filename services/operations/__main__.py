"""Programs for installations: `python -m services.operations smoke|decommission|forget|await-in-sync`."""

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from libs.client.kafka_connection import BrokerUnreachable, KafkaConnection
from libs.client.properties_file import read_client_properties
from libs.client.security import NO_SECURITY, SecurityProblem
from libs.host_port import split_port
from libs.runtime.ending import run_program
from services.operations.await_in_sync import await_in_sync
from services.operations.requests import Refused
from services.operations.scale_down import TimeOver, decommission, forget
from services.operations.smoke import SmokeFailed, smoke

KAFKAS_NAME = "--bootstrap-server"
"""What Kafka's tools call `--bootstrap`."""
FAILURES = (BrokerUnreachable, Refused, SecurityProblem, SmokeFailed, TimeOver)


def main(arguments: Sequence[str] | None = None) -> None:
    given = _parser().parse_args(arguments)
    host, port = given.address
    say = partial(print, flush=True)
    try:
        file = getattr(given, "command_config", None)
        security = NO_SECURITY if file is None else read_client_properties(file)
        connect = partial(KafkaConnection, security=security)
        match given.program:
            case "smoke":
                smoke(connect, host, port, given.timeout, say)
            case "decommission":
                decommission(connect, host, port, given.keep, given.timeout, say)
            case "forget":
                forget(connect, host, port, given.keep, given.timeout, say)
            case "await-in-sync":
                await_in_sync(host, port, given.timeout, say)
    except FAILURES as failure:
        sys.exit(f"{given.program}: {failure}")
    print(f"{given.program}: done")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m services.operations", description=__doc__)
    programs = parser.add_subparsers(dest="program", required=True, metavar="smoke|decommission|forget|await-in-sync")
    for name, words, address, timeout_s in (
        ("smoke", "produces a record to each broker and consumes it", "--bootstrap", 60.0),
        ("decommission", "empties the brokers whose ids are above --keep", "--bootstrap", 3600.0),
        ("forget", "unregisters the brokers whose ids are above --keep, once they are gone", "--bootstrap", 600.0),
        ("await-in-sync", "waits until all replicas are in sync, by a storage node's admin port", "--admin", 120.0),
    ):
        program = programs.add_parser(name, help=words, description=words)
        names = [address, *([KAFKAS_NAME] if address == "--bootstrap" else [])]
        program.add_argument(*names, dest="address", type=_address, required=True, metavar="HOST:PORT")
        if address == "--bootstrap":
            words = "settings of security, as Kafka's tools take them"
            program.add_argument("--command-config", metavar="FILE", help=words)
        program.add_argument("--timeout", type=_positive, default=timeout_s, metavar="SECONDS")
        if name in ("decommission", "forget"):
            program.add_argument("--keep", type=_count, required=True, metavar="N", help="the highest broker id that stays")
    return parser


def _address(text: str) -> tuple[str, int]:
    host, port = split_port(text)
    if not host or not port.isdecimal() or not 1 <= int(port) <= 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return host, int(port)


def _positive(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


if __name__ == "__main__":
    run_program(main)
