"""Names of the moments between which a crash matters. Tests put an observer here that kills the process at one of them."""

from collections.abc import Callable

_observers: list[Callable[[str], None]] = []


def observe(observer: Callable[[str], None]) -> None:
    """From now on the observer is called with the name of each step of this process."""
    _observers.append(observer)


def forget(observer: Callable[[str], None]) -> None:
    _observers.remove(observer)


def reached(step: str) -> None:
    for observer in list(_observers):
        observer(step)
