"""A `dataclass` that costs a third of the standard one when its module is imported: a start imports hundreds of them.

The standard one compiles up to six methods from text for each class, and no bytecode cache holds that. This one lets it make the
constructor and the slots alone. The other methods are closures that all classes share the code of. What differs:

- `frozen=True` is checked by mypy, and not when the program runs. Constructors are faster for that.
- There are no `order`, `init`, `unsafe_hash` and `weakref_slot`.
- `__dataclass_params__` says what the standard decorator was asked for here: `eq` and `frozen` are False there.
- The shown form of an instance that contains itself recurses without an end.
- A class without a docstring has its name as one, and not its signature.

Type checkers see the standard decorator.
"""

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        *, frozen: bool = False, slots: bool = False, eq: bool = True, kw_only: bool = False
    ) -> Callable[[type[T]], type[T]]:
        """`frozen` with `eq`: instances are hashable."""

        def made(cls: type[T]) -> type[T]:
            own = vars(cls).copy()
            if cls.__doc__ is None:
                cls.__doc__ = cls.__name__  # the standard decorator would describe the constructor, which takes long
            cls = dataclasses.dataclass(repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
            fields = dataclasses.fields(cls)
            if "__repr__" not in own:
                cls.__repr__ = _repr(tuple(field.name for field in fields if field.repr))
            if eq:
                values = _values(tuple(field.name for field in fields if field.compare))
                if "__eq__" not in own:
                    cls.__eq__ = _eq(values)
                if own.get("__hash__") is None:
                    hashed = tuple(field.name for field in fields if (field.compare if field.hash is None else field.hash))
                    cls.__hash__ = _hash(_values(hashed)) if frozen else None
            return cls

        return made


def _values(names: tuple[str, ...]) -> Callable[[Any], tuple[object, ...]]:
    """A tuple of the fields' values, whose comparison takes an object to be equal to itself, as a NaN is not."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda instance: tuple([getattr(instance, name) for name in names])


def _repr(names: tuple[str, ...]) -> Callable[[Any], str]:
    def __repr__(self: Any) -> str:
        shown = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{type(self).__qualname__}({shown})"

    return __repr__


def _eq(values: Callable[[Any], tuple[object, ...]]) -> Callable[[Any, object], bool]:
    def __eq__(self: Any, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return __eq__


def _hash(values: Callable[[Any], tuple[object, ...]]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__
