"""The offset map: the last offset of each key, in bounded memory."""

import sys

from libs.commitlog.cleaner.record_bytes import WHOLE_KEY_MAX

_INT_BYTES = 32  # an offset of up to 2^60
_KEY_OVERHEAD = 48  # the size of a bytes object without its content, and the rounding up to 16
_KEY_COST_MAX = _INT_BYTES + _KEY_OVERHEAD + WHOLE_KEY_MAX + 1
_TABLE_FILL = 2 / 3  # the share at which a table doubles
_ENTRY_BYTES = 24
_INDEX_BYTES = 4
_NEARLY_FULL = 0.95


class OffsetMap:
    """A dict that knows its size in memory: keys, offsets, its table, and the second table that it needs while it grows."""

    def __init__(self, max_bytes: int) -> None:
        self.offsets: dict[bytes, int] = {}
        self._max_bytes = max_bytes
        self._fits = self._count_that_fits(0)

    def clear(self) -> None:
        self.offsets.clear()
        self._fits = self._count_that_fits(0)

    def has_room(self, count: int) -> bool:
        """Whether `count` more keys fit, of whatever length. Ask before you add them."""
        needed = len(self.offsets) + count
        if needed <= self._fits:
            return True
        contents = sum(map(len, self.offsets)) + len(self.offsets) * (_KEY_OVERHEAD + _INT_BYTES)
        # The exact count takes long, so it must not happen at every batch: the last twentieth is given up.
        if contents > self._max_bytes * _NEARLY_FULL:
            return False
        self._fits = self._count_that_fits(contents)
        return needed <= self._fits

    def _count_that_fits(self, contents: int) -> int:
        """The number of keys that fit if all new ones are long."""
        used, table = len(self.offsets), sys.getsizeof(self.offsets)
        room = self._max_bytes - contents
        slots = 8
        while slots * _TABLE_FILL < used:
            slots *= 2
        most = used
        while True:
            grown = int(slots * (_TABLE_FILL * _ENTRY_BYTES + _INDEX_BYTES))
            fits = used + (room - (table if grown <= table else table + grown)) // _KEY_COST_MAX
            most = max(most, min(fits, int(slots * _TABLE_FILL)))
            if fits <= slots * _TABLE_FILL:
                return most
            slots, table = slots * 2, max(table, grown)
