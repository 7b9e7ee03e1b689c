"""One line per event, `key=value` or JSON. What a client sent may stand in it, so it can never break the line, or the terminal.

log = logging.getLogger("log")
log.info("segment rolled", extra=fields(topic=name, partition=index))
"""

import contextlib
import datetime
import json
import logging
import logging.handlers
import math
import os
import re
import sys
import time
import traceback
from typing import Final, TextIO

from libs.lean_dataclass import dataclass
from libs.telemetry.level_switches import Switches
from libs.telemetry.log_limit import LogLimit

log = logging.getLogger("process")

LONGEST_VALUE = 256
LONGEST_TRACE = 4000
ITEMS_MAX = 50
"""The items of a list that a JSON line shows."""
LOOK_S = 1.0
RETRY_S = 60.0
"""The time until a log file that could not be renamed is tried again, and between two words of lines that are lost."""
LEVELS: Final = ("trace", "debug", "info", "warning", "error")
TEXT, JSON = "text", "json"
LONGEST_NAME = 1024
"""The longest name of a principal that a line shows as a whole: rules and ACLs need all of it."""
LONGEST_OF = {"way_out": 4000, "detail": LONGEST_NAME + LONGEST_VALUE, "principal": LONGEST_NAME, "subject": LONGEST_NAME}
"""Advice that is cut is wrong: it may name a path several times, with a topic's name in it. So is half a name of a certificate,
with which `detail` ends where no rule fits it."""
_VALUES = (str, int, float, list, tuple, dict, set, frozenset, type(None))
_PLAIN = re.compile(r"[A-Za-z0-9_.:/@,+\-\[\]#]+\Z")
_UNPRINTABLE = re.compile(r'[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\u200e\u200f\u202a-\u202e\u2066-\u2069"\\]')


def fields(**values: object) -> dict[str, object]:
    """The fields of a log line, for `extra=`.

    Objects become texts here. Some handlers keep records, as pytest's and Sentry's do: they would keep the open files of a
    partition that was deleted, or the frames of an error's traceback.
    """
    return {"fields": {name: value if isinstance(value, _VALUES) else str(value) for name, value in values.items()}}


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


def _value(value: object, longest: int = LONGEST_VALUE) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= longest and _PLAIN.match(text) else f'"{escape(text, longest)}"'


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How a process logs. Raises ValueError for what it cannot do."""

    level: str = "info"
    format: str = TEXT
    file: str = ""
    """Its path. Empty: stderr."""
    file_bytes_max: int = 67_108_864
    """From this size on it is renamed to `FILE.1`, and a new one begins."""
    former_files_max: int = 3

    def __post_init__(self) -> None:
        if self.level.lower() not in LEVELS:
            raise ValueError(f"PENSTOCK_LOG_LEVEL is {self.level!r}; expected {', '.join(LEVELS[:-1])} or {LEVELS[-1]}")
        if self.format not in (TEXT, JSON):
            raise ValueError(f"PENSTOCK_LOG_FORMAT is {self.format!r}; expected {TEXT} or {JSON}")
        if self.file_bytes_max < 1:
            raise ValueError(f"PENSTOCK_LOG_FILE_BYTES_MAX is {self.file_bytes_max}; expected 1 or more")
        if self.former_files_max < 1:
            raise ValueError(f"PENSTOCK_LOG_FORMER_FILES_MAX is {self.former_files_max}; expected 1 or more")


class LineFormatter(logging.Formatter):
    """The format of a log line: `ts= level= service= node= logger= event= …`. A traceback is in the same line, so that each
    line is one event."""

    def __init__(self, service: str, name: str) -> None:
        super().__init__()
        self._origin = f"service={_value(service)} node={_value(name)}"

    def format(self, record: logging.LogRecord) -> str:
        parts = [f"ts={_time(record)}", f"level={record.levelname.lower()}", self._origin]
        if not _is_module(record):
            parts.append(f"logger={_value(record.name)}")
        parts.append(f'event="{escape(record.getMessage())}"')
        parts += [f"{key}={_value(value, _longest(key))}" for key, value in _given(record).items()]
        if record.exc_info and record.exc_info[1] is not None:
            error, trace = _error(record.exc_info[1])
            parts.append(f'error="{escape(error)}"')
            parts.append(f'trace="{escape(trace, LONGEST_TRACE)}"')
        return " ".join(parts)


class JsonFormatter(logging.Formatter):
    """The same line as one JSON object, for collectors. Numbers, booleans and lists stay what they are. The process is `process`,
    since `node` is a field of many events."""

    def __init__(self, service: str, name: str) -> None:
        super().__init__()
        self._service, self._name = service, name

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "ts": _time(record),
            "level": record.levelname.lower(),
            "service": self._service,
            "process": self._name,
            "event": _shortened(record.getMessage()),
        }
        if not _is_module(record):
            line["logger"] = record.name
        given = _given(record).items()
        line |= {f"{key}_" if key in line else key: _plain(value, _longest(key)) for key, value in given}
        if record.exc_info and record.exc_info[1] is not None:
            error, trace = _error(record.exc_info[1])
            line |= {"error": _shortened(error), "trace": _shortened(trace, LONGEST_TRACE)}
        return json.dumps(line)


FORMATTERS: Final = {TEXT: LineFormatter, JSON: JsonFormatter}


def _time(record: logging.LogRecord) -> str:
    at = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"


def _is_module(record: logging.LogRecord) -> bool:
    """Whether the logger has the name of one of our modules, which tells an operator nothing."""
    return record.name.startswith(("libs.", "services."))


def _given(record: logging.LogRecord) -> dict[str, object]:
    given = getattr(record, "fields", None)
    return given if isinstance(given, dict) else {}


def _longest(key: str) -> int:
    return LONGEST_OF.get(key, LONGEST_VALUE)


def _error(error: BaseException) -> tuple[str, str]:
    return f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error))


def _shortened(text: str, longest: int = LONGEST_VALUE) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


def _plain(value: object, longest: int = LONGEST_VALUE) -> object:
    if value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(item, (bool, int, float, str)) for item in value):
        more = [f"and {len(value) - ITEMS_MAX} more"] if len(value) > ITEMS_MAX else []
        return [_plain(item) for item in value[:ITEMS_MAX]] + more
    if isinstance(value, dict) and len(value) <= ITEMS_MAX:
        return {_shortened(str(key)): _plain(item) for key, item in value.items()}
    return _shortened(str(value), longest)


class RotatedFile(logging.handlers.RotatingFileHandler):
    """A log file of one process. If stdout and stderr go to it as well, as under `make up`, they follow it to the new file."""

    def __init__(self, settings: LogSettings) -> None:
        former = settings.former_files_max
        super().__init__(settings.file, maxBytes=settings.file_bytes_max, backupCount=former, encoding="utf-8")
        self._not_before = 0.0
        self._lost_lines = 0
        self._lost = LogLimit(RETRY_S)
        self._looked_at = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        lost = self._lost_lines
        super().emit(record)
        if lost and self._lost_lines == lost:
            self._lost_lines = 0
            log.warning("lines of the log were lost", extra=fields(file=self.baseFilename, count=lost))

    def shouldRollover(self, record: logging.LogRecord) -> bool:
        self._follow_name()
        return time.monotonic() >= self._not_before and bool(super().shouldRollover(record))

    def _follow_name(self) -> None:
        """Opens the file again, at most a second after somebody removed or renamed it."""
        now = time.monotonic()
        if now < self._looked_at + LOOK_S:
            return
        self._looked_at = now
        try:
            is_there = self.stream is not None and os.path.samestat(os.stat(self.baseFilename), os.fstat(self._descriptor()))
        except FileNotFoundError:
            is_there = False
        if not is_there:
            former, self.stream = self.stream, None
            if former is not None:
                with contextlib.suppress(OSError):  # the rest of a line that its full volume did not take
                    former.close()
            self.stream = self._open()

    def doRollover(self) -> None:
        former = os.fstat(self._descriptor())
        try:
            super().doRollover()
        except OSError as error:
            self._not_before = time.monotonic() + RETRY_S
            self.stream = self.stream or self._open()
            log.warning("the log file is not rotated, and grows", extra=fields(file=self.baseFilename, reason=error))
            return
        for descriptor in (1, 2):
            with contextlib.suppress(OSError):  # it is closed: nobody writes there
                if os.path.samestat(os.fstat(descriptor), former):
                    os.dup2(self._descriptor(), descriptor)

    def handleError(self, record: logging.LogRecord) -> None:
        """A line that cannot be written is lost, and the process goes on. Who watches stderr is told once a minute. The log tells
        it once it can be written again."""
        self._lost_lines += 1
        if count := self._lost.count(time.monotonic()):
            with contextlib.suppress(OSError, ValueError):
                print(f"{count} lines of {self.baseFilename} are lost: {sys.exc_info()[1]}", file=sys.stderr, flush=True)

    def _descriptor(self) -> int:
        assert self.stream is not None, "without delay=True it is always open"
        return self.stream.fileno()


def configure(service: str, name: str, settings: LogSettings, stream: TextIO | None = None, *, shares_file: bool = False) -> None:
    """Sends the process' log where `settings` say, or else to `stream` (stderr). Call once, from `__main__`.

    `shares_file`: another process rotates the file, and this one follows it. OSError: the file cannot be opened.
    """
    handler: logging.Handler
    if not settings.file:
        handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    elif shares_file:
        handler = logging.handlers.WatchedFileHandler(settings.file, encoding="utf-8")
    else:
        handler = RotatedFile(settings)
    handler.setFormatter(FORMATTERS[settings.format](service, name))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.level.upper())
    logging.captureWarnings(True)
    # Messages of other libraries below the level of a warning are left out.
    for chatty in ("asyncio", "aiohttp", "aiohttp.access", "etcd3", "grpc"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))
    Switches.look()
