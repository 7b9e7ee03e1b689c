"""Numbers as Go writes them, and Prometheus with it."""

from prometheus_client.utils import floatToGoString


def go_number(value: float) -> str:
    if type(value) is int and 0 <= value < 1_000_000:
        return f"{value}.0"
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]
