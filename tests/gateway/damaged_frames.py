"""Frames that are damaged in one place."""

from hypothesis import strategies as st


def damaged_once(data: st.DataObject, original: memoryview | bytes | bytearray) -> bytearray:
    """A frame with one byte changed, or cut, or grown."""
    damaged = bytearray(original)
    at = data.draw(st.integers(0, len(damaged) - 1))
    match data.draw(st.sampled_from(("change", "cut", "grow"))):
        case "change":
            damaged[at] = data.draw(st.integers(0, 255))
        case "cut":
            del damaged[at:]
        case _:
            damaged += data.draw(st.binary(min_size=1, max_size=5))
    return damaged
