"""Of each key the last offset, in as much memory as was granted."""

import sys

from libs.commitlog.cleaner.record_bytes import WHOLE_KEY_MAX

_INT_BYTES = 32  # an offset of up to 2^60
_KEY_OVERHEAD = 48  # a bytes object beside its content, and what rounding up to 16 adds
_KEY_COST_MAX = _INT_BYTES + _KEY_OVERHEAD + WHOLE_KEY_MAX + 1
_TABLE_FILL = 2 / 3  # then a table doubles; it has room for no more entries
_ENTRY_BYTES = 24
_INDEX_BYTES = 4
_NEARLY_FULL = 0.95


class OffsetMap:
    """A dict that knows what it weighs: keys, offsets, its table, and the second table that it needs while it grows."""

    def __init__(self, max_bytes: int) -> None:
        self.offsets: dict[bytes, int] = {}
        self._max_bytes = max_bytes
        self._counted = 0  # keys
        self._contents = 0  # bytes of keys and offsets: exact when last measured, then at most what was added

    def has_room(self, count: int) -> bool:
        """Whether `count` more keys fit, of whatever length. Say so before they are noted."""
        offsets = self.offsets
        self._contents += (len(offsets) - self._counted) * _KEY_COST_MAX
        self._counted = len(offsets)
        if self._contents + count * _KEY_COST_MAX + self._table_bytes(count) <= self._max_bytes:
            return True
        self._contents = sum(map(len, offsets)) + len(offsets) * (_KEY_OVERHEAD + _INT_BYTES)
        room = self._max_bytes - self._contents - self._table_bytes(count)
        # Measuring takes long, so it must not happen at every batch: the last twentieth is given up.
        return count * _KEY_COST_MAX <= room and self._contents <= self._max_bytes * _NEARLY_FULL

    def _table_bytes(self, more: int) -> int:
        now = sys.getsizeof(self.offsets)
        used = len(self.offsets) + more
        slots = 8
        while slots * _TABLE_FILL < used:
            slots *= 2
        grown = int(slots * (_TABLE_FILL * _ENTRY_BYTES + _INDEX_BYTES))
        return now if grown <= now else now + grown
