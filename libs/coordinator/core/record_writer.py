"""The writer of records in internal topics."""

from libs.wire.primitives import STRING_BYTES_MAX, Writer


class RecordWriter(Writer):
    """A writer that refuses values that could not be read again: a shard with such a record could not be loaded."""

    __slots__ = ()

    def string(self, value: str, flexible: bool) -> None:
        if len(value) > STRING_BYTES_MAX // 4 and len(value.encode()) > STRING_BYTES_MAX:
            raise ValueError(f"string of {len(value)} characters does not fit")
        super().string(value, flexible)
