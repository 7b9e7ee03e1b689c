"""One line per event, `key=value`. What a client sent may stand in it, so it can never break the line, or the terminal.

log = logging.getLogger(__name__)
log.info("segment rolled", extra=fields(topic=name, partition=index))
"""

import datetime
import logging
import re
import sys
import traceback
from typing import TextIO

LONGEST_VALUE = 256
_PLAIN = re.compile(r"[A-Za-z0-9_.:/@,+\-\[\]#]+\Z")
_UNPRINTABLE = re.compile(r'[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\u200e\u200f\u202a-\u202e\u2066-\u2069"\\]')


def fields(**values: object) -> dict[str, object]:
    """The fields of a log line, for `extra=`."""
    return {"fields": values}


def escape(text: str, longest: int = LONGEST_VALUE) -> str:
    """The text of a value for a log line: shortened, and with control characters, quotes and backslashes escaped."""
    cut = text[:longest]
    escaped = _UNPRINTABLE.sub(_write_out, cut)
    return escaped if len(text) <= longest else f"{escaped}…"


def _write_out(match: re.Match[str]) -> str:
    character = match.group()
    if character in '"\\':
        return f"\\{character}"
    code = ord(character)
    return {10: "\\n", 13: "\\r", 9: "\\t"}.get(code, f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def _value(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST_VALUE and _PLAIN.match(text) else f'"{escape(text)}"'


class LineFormatter(logging.Formatter):
    """The format of a log line: `ts= level= service= node= event= …`. A traceback is in the same line, so that each line is one
    event."""

    def __init__(self, service: str, name: str) -> None:
        super().__init__()
        self._origin = f"service={_value(service)} node={_value(name)}"

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        parts = [
            f"ts={at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z",
            f"level={record.levelname.lower()}",
            self._origin,
            f'event="{escape(record.getMessage())}"',
        ]
        if not record.name.startswith(("libs.", "services.")):
            parts.append(f"logger={_value(record.name)}")
        given = getattr(record, "fields", None)
        if isinstance(given, dict):
            parts += [f"{key}={_value(value)}" for key, value in given.items()]
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            parts.append(f'error="{escape(f"{type(error).__name__}: {error}")}"')
            parts.append(f'trace="{escape("".join(traceback.format_exception(error)), 4000)}"')
        return " ".join(parts)


def configure(service: str, name: str, level: str, stream: TextIO | None = None) -> None:
    """Sends the process' log to `stream` (stderr). Call once, from `__main__`."""
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(LineFormatter(service, name))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(True)
    # Messages of other libraries below the level of a warning are left out.
    for chatty in ("asyncio", "aiohttp", "aiohttp.access", "etcd3", "grpc"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))
