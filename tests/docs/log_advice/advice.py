"""One row of the page of log events."""

from typing import NamedTuple


class Advice(NamedTuple):
    meaning: str
    action: str
