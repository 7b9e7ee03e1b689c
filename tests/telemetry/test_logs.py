"""A line is an event, whatever a client managed to get into it."""

import errno
import io
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.telemetry import logs
from libs.telemetry.logs import JSON, LONGEST_VALUE, LogSettings, configure, escape, fields
from services.storage.reconcile.log_opening import repair_hint

log = logging.getLogger("log")


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    stream = io.StringIO()
    configure("gateway", "gateway-1", LogSettings(), stream)
    yield stream
    root.handlers[:], root.level = before
    logging.captureWarnings(False)


def test_a_line_has_time_process_and_event(lines: io.StringIO) -> None:
    log.info("segment rolled", extra=fields(topic="t", partition=3, took=0.25, path="/data/a b"))
    log.debug("not at this level")
    assert re.fullmatch(
        r"ts=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z level=info service=gateway node=gateway-1 logger=log "
        r'event="segment rolled" topic=t partition=3 took=0\.25 path="/data/a b"\n',
        lines.getvalue(),
    )


def test_a_hostile_client_id_stays_within_its_field(lines: io.StringIO) -> None:
    hostile = 'x\n2026 level=error event="forged" \x1b[31m\x07\u202e\x85' + "y" * 32_768
    log.warning("request refused", extra=fields(client=hostile))
    text = lines.getvalue()
    assert text.count("\n") == 1
    assert r"x\n2026 level=error event=\"forged\" \x1b[31m\x07\u202e\x85yyy" in text
    assert len(text) < 700


def test_the_advice_of_a_line_is_whole_however_long_its_paths_are(lines: io.StringIO) -> None:
    path = f"/data/logs/{'t' * 249}-0"
    log.error("partition is offline", extra=fields(path=path, way_out=repair_hint(path)))
    assert f'accept-loss {path}"' in lines.getvalue()


def test_an_exception_is_one_line_too(lines: io.StringIO) -> None:
    try:
        raise ValueError("bad\nthing")
    except ValueError:
        log.exception("append failed", extra=fields(topic="t"))
    text = lines.getvalue()
    assert text.count("\n") == 1
    assert r'error="ValueError: bad\nthing"' in text
    assert "test_logs.py" in text


def test_other_libraries_are_named_and_mostly_quiet(lines: io.StringIO) -> None:
    logging.getLogger("aiohttp.access").info("GET /healthz")
    logging.getLogger("kazoo").info("hello")
    assert "healthz" not in lines.getvalue()
    assert 'logger=kazoo event="hello"' in lines.getvalue()


@pytest.fixture
def root_logger() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    for handler in root.handlers:
        if handler not in before[0]:
            handler.close()
    root.handlers[:], root.level = before
    logging.captureWarnings(False)


def test_as_json_a_line_is_one_object_and_numbers_stay_numbers(root_logger: None) -> None:
    stream = io.StringIO()
    configure("storage", "storage-2", LogSettings(format=JSON), stream)
    log.info("segment rolled", extra=fields(topic='t"\n', partition=3, took=0.25, isr=[1, 2], path=Path("/data"), level="x"))
    try:
        raise ValueError("bad\nthing")
    except ValueError:
        log.exception("append failed")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.pop("ts"))
    assert first == {
        "level": "info",
        "service": "storage",
        "process": "storage-2",
        "event": "segment rolled",
        "logger": "log",
        "topic": 't"\n',
        "partition": 3,
        "took": 0.25,
        "isr": [1, 2],
        "path": "/data",
        "level_": "x",
    }
    assert second["error"] == "ValueError: bad\nthing"
    assert "test_logs.py" in second["trace"]


ROTATES = """
import logging, sys
from libs.telemetry.logs import LogSettings, configure
settings = LogSettings(file=sys.argv[1], file_bytes_max=2000, former_files_max=2)
configure("gateway", "gateway-1", settings)
for number in range(100):
    logging.getLogger("log").info(f"line {number}")
print("the last words", file=sys.stderr)
"""


def test_a_log_file_is_rotated_and_stderr_follows_it(tmp_path: Path) -> None:
    file = tmp_path / "gateway-1.log"
    with open(file, "ab") as output:
        subprocess.run([sys.executable, "-c", ROTATES, str(file)], stdout=output, stderr=output, check=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gateway-1.log", "gateway-1.log.1", "gateway-1.log.2"]
    assert all(path.stat().st_size < 2100 for path in tmp_path.iterdir())
    last = file.read_text(encoding="utf-8").splitlines()
    assert last[-1] == "the last words"
    assert 'event="line 99"' in last[-2]


def test_a_log_file_that_was_removed_is_made_again(root_logger: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LOOK_S", 0.0)
    file = tmp_path / "gateway-1.log"
    configure("gateway", "gateway-1", LogSettings(file=str(file)))
    log.info("before")
    file.unlink()
    log.info("after")
    assert "after" in file.read_text(encoding="utf-8")


def test_a_log_file_that_was_removed_while_its_volume_was_full_is_made_again(
    root_logger: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logs, "LOOK_S", 0.0)
    file = tmp_path / "gateway-1.log"
    file.symlink_to("/dev/full")
    configure("gateway", "gateway-1", LogSettings(file=str(file)))
    log.info("lost")
    file.unlink()
    log.info("after")
    assert 'event="after"' in file.read_text(encoding="utf-8")
    assert " count=1" in file.read_text(encoding="utf-8")


FULL = """
import logging, os, sys
from libs.telemetry.logs import LogSettings, configure
configure("gateway", "gateway-1", LogSettings(file=sys.argv[1], file_bytes_max=2000, former_files_max=2))
os.makedirs(sys.argv[1] + ".1/in the way")
os.makedirs(sys.argv[1] + ".2/in the way")
for number in range(100):
    logging.getLogger("log").info(f"line {number}")
"""


def test_a_file_that_cannot_be_rotated_goes_on_and_says_so_once(tmp_path: Path) -> None:
    file = tmp_path / "gateway-1.log"
    done = subprocess.run([sys.executable, "-c", FULL, str(file)], capture_output=True, encoding="utf-8", check=True)
    lines = file.read_text(encoding="utf-8").splitlines()
    assert sum("the log file is not rotated, and grows" in line for line in lines) == 1
    assert len(lines) == 101
    assert done.stderr == ""


def test_lines_that_cannot_be_written_end_no_process_and_are_told_on_stderr(tmp_path: Path) -> None:
    code = ROTATES.replace('print("the last words", file=sys.stderr)', "").replace("file_bytes_max=2000", "file_bytes_max=10**9")
    done = subprocess.run([sys.executable, "-c", code, "/dev/full"], capture_output=True, encoding="utf-8", check=True)
    assert re.fullmatch(r"1 lines of /dev/full are lost: \[Errno 28\] No space left on device\n", done.stderr)


def test_lost_lines_are_counted_in_the_log_once_it_can_be_written(
    root_logger: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "gateway-1.log"
    configure("gateway", "gateway-1", LogSettings(file=str(file), file_bytes_max=200, former_files_max=1))
    (handler,) = logging.getLogger().handlers
    assert isinstance(handler, logs.RotatedFile)
    with monkeypatch.context() as full:

        def refuse(line: str) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        full.setattr(handler.stream, "write", refuse, raising=False)
        for number in range(3):
            log.info(f"lost {number}")
    log.info("written")
    log.info("also written")  # in a new file, since the first one is full
    text = (tmp_path / "gateway-1.log.1").read_text(encoding="utf-8") + file.read_text(encoding="utf-8")
    assert text.count('event="lines of the log were lost"') == 1
    assert " count=3" in text
    assert 'event="also written"' in text
    assert "lost 1" not in text


def test_a_json_line_is_bounded_and_is_json(root_logger: None) -> None:
    stream = io.StringIO()
    configure("storage", "storage-2", LogSettings(format=JSON), stream)
    log.info("many", extra=fields(names=["n" * 10_000] * 10_000, rate=float("inf"), other=float("nan")))
    text = stream.getvalue()
    line = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert (line["names"][-1], line["rate"], line["other"]) == ("and 9950 more", "inf", "nan")
    assert len(text) < 20_000


def test_a_child_process_follows_the_file_that_its_parent_rotates(root_logger: None, tmp_path: Path) -> None:
    file = tmp_path / "storage-1.log"
    configure("storage", "cleaner", LogSettings(file=str(file)), shares_file=True)
    log.info("before")
    file.rename(tmp_path / "storage-1.log.1")
    log.info("after")
    assert 'event="after"' in file.read_text(encoding="utf-8")
    assert "after" not in (tmp_path / "storage-1.log.1").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"level": "loud"}, "PENSTOCK_LOG_LEVEL is 'loud'; expected trace, debug, info, warning or error"),
        ({"format": "xml"}, "PENSTOCK_LOG_FORMAT is 'xml'; expected text or json"),
        ({"file_bytes_max": 0}, "PENSTOCK_LOG_FILE_BYTES_MAX is 0; expected 1 or more"),
        ({"former_files_max": 0}, "PENSTOCK_LOG_FORMER_FILES_MAX is 0; expected 1 or more"),
    ],
)
def test_a_setting_that_cannot_be_is_named(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        LogSettings(**wrong)


@pytest.mark.parametrize("variable", ["PENSTOCK_LOG_LEVEL", "PENSTOCK_LOG_FILE"])
def test_a_service_that_cannot_log_says_so_in_one_line_and_ends(variable: str, tmp_path: Path) -> None:
    needed = {"PENSTOCK_NODE_ID": "1", "PENSTOCK_ETCD": "127.0.0.1:1", "PENSTOCK_DATA_DIR": str(tmp_path)}
    environment = os.environ | needed | {"PENSTOCK_RPC_UNIX": str(tmp_path / "socket"), variable: "/nowhere/at.all"}
    command = [sys.executable, "-m", "services.group_coordinator"]
    ended = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=60)
    assert ended.returncode == 1
    assert re.fullmatch(rf"group_coordinator: {variable} .*/nowhere/at.all.*\n", ended.stderr)


@given(st.text(max_size=400))
def test_whatever_is_escaped_is_one_printable_line(text: str) -> None:
    escaped = escape(text)
    assert all(ord(character) >= 32 and character not in "\x7f\x85\u2028\u2029" for character in escaped)
    assert len(escaped) <= 6 * LONGEST_VALUE + 1
    escaped.encode()
    assert not re.search(r'(?<!\\)(\\\\)*"', escaped)
