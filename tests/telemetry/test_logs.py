"""A line is an event, whatever a client managed to get into it."""

import io
import logging
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.telemetry.logs import LONGEST_VALUE, configure, escape, fields

log = logging.getLogger("libs.example")


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    stream = io.StringIO()
    configure("gateway", "gateway-1", "info", stream)
    yield stream
    root.handlers[:], root.level = before
    logging.captureWarnings(False)


def test_a_line_has_time_process_and_event(lines: io.StringIO) -> None:
    log.info("segment rolled", extra=fields(topic="t", partition=3, took=0.25, path="/data/a b"))
    log.debug("not at this level")
    assert re.fullmatch(
        r"ts=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z level=info service=gateway node=gateway-1 "
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
    assert 'event="hello" logger=kazoo' in lines.getvalue()


@given(st.text(max_size=400))
def test_whatever_is_escaped_is_one_printable_line(text: str) -> None:
    escaped = escape(text)
    assert all(ord(character) >= 32 and character not in "\x7f\x85\u2028\u2029" for character in escaped)
    assert len(escaped) <= 6 * LONGEST_VALUE + 1
    escaped.encode()
    assert not re.search(r'(?<!\\)(\\\\)*"', escaped)
