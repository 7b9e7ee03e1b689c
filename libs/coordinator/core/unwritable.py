"""A decision that cannot be written: its records fit no batch, or one of them does not fit its format.

A timer's decision is due for as long as it is not written. So a machine may have a smaller one in its stead
(`decisions.Machine.decide_smaller`).
"""

from typing import Any

from libs.lean_dataclass import dataclass


class TooLarge(Exception):
    """A decision's records fit no batch."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"its records have {size} bytes, and a batch may have {limit}")


@dataclass(frozen=True, slots=True)
class Unwritable:
    """A decision that could not be written."""

    event: Any
    reason: Exception
    replaced: bool
    """Whether a smaller decision was made in its stead. Otherwise nothing has changed. A timer comes due again."""
