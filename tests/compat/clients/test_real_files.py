"""Real files go in by lines and come back byte for byte."""

import hashlib
import sysconfig
from functools import cache
from pathlib import Path

import pytest

from tests.compat.clients.admin import Admin
from tests.compat.kafka.tools import run_kcat, run_tool

MB = 1_000_000
LINE_BYTES_MAX = 1_000_000


@pytest.fixture(scope="module")
def big_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100 MB of Python's standard library, as often as it takes."""
    return write_lines(tmp_path_factory.mktemp("files") / "big", 100 * MB)


@pytest.fixture(scope="module")
def smaller_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lines(tmp_path_factory.mktemp("files") / "smaller", 20 * MB)


def write_lines(target: Path, size: int) -> Path:
    """Lines that all tools agree about. kcat itself skips empty ones; Java's reader takes a carriage return for a line's end
    and text that is not UTF-8 for something else."""
    library = Path(sysconfig.get_paths()["stdlib"])
    written = turn = 0
    with open(target, "wb") as file:
        while written < size:
            file.write(b"=== %d ===\n" % turn)
            turn += 1
            for source in sorted(library.glob("**/*.py")):
                written += file.write(plain_lines(source))
                if written >= size:
                    break
    return target


@cache
def plain_lines(source: Path) -> bytes:
    return b"".join(line + b"\n" for line in source.read_bytes().split(b"\n") if line and is_plain(line))


def is_plain(line: bytes) -> bool:
    if b"\r" in line or len(line) > LINE_BYTES_MAX:
        return False
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_kcat_gives_a_file_of_100_mb_back_byte_for_byte(bootstrap: str, topic: str, big_file: Path) -> None:
    where = ("-b", bootstrap, "-t", topic)
    run_kcat("-P", *where, "-l", str(big_file), timeout_s=150)
    read = run_kcat("-C", "-e", "-q", *where, "-o", "beginning", "-p", "0", timeout_s=150).stdout
    assert digest(read) == digest(big_file.read_bytes())


def test_javas_console_tools_give_a_file_back_byte_for_byte(bootstrap: str, admin: Admin, topic: str, smaller_file: Path) -> None:
    content = smaller_file.read_bytes()
    server = ("--bootstrap-server", bootstrap, "--topic", topic)
    run_tool("kafka-console-producer", *server, stdin=content, timeout_s=150, heap="512m")
    reading = ("--partition", "0", "--offset", "earliest", "--max-messages", str(content.count(b"\n")))
    read = run_tool("kafka-console-consumer", *server, *reading, timeout_s=150, heap="512m").stdout
    assert digest(read) == digest(content)
    assert run_kcat("-C", "-e", "-q", "-b", bootstrap, "-t", topic, "-p", "0", timeout_s=150).stdout == content
