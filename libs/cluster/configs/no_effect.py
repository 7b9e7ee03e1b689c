"""Kafka 4.2's broker configs without an effect here: reads the table `no_effect.json`.

The table has groups of configs, each with what takes their place. Those of an `accepted` group are tunings: they are taken where
Kafka takes them, kept, and described as such. Those of a `refused` group ask for a protection, a limit or a part that Penstock
lacks. They accept their default only, since a cluster that ignored them would lack what they promise.

A row has name, type, default, bounds, importance and change. `null`: no default, or no bounds. Bounds name a function of
`values.py`, and its arguments. All but the change is Kafka's own, which tests/compat/differential/test_broker_config_table.py
compares. A config that gets an effect moves to `broker_table.py`.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from libs.cluster.configs.values import Check, ConfigDef, ConfigType, any_case, at_least, between, list_of, not_empty, one_of

TABLE: Final = Path(__file__).with_name("no_effect.json")

_BOUNDS: Final[Mapping[str, Callable[..., Check]]] = {
    "any_case": any_case,
    "at_least": at_least,
    "between": between,
    "list_of": list_of,
    "not_empty": lambda: not_empty,
    "one_of": one_of,
}

_CHANGES: Final[Mapping[str, Mapping[str, Any]]] = {
    "any": {},
    "one": {"one_broker": True},
    "listener": {"one_broker": True, "per_listener": True},
    "start": {"read_only": True},
    "hidden": {"read_only": True, "hidden": True},
}
"""Where and when a config can be set. any: at run time, for one broker or all, and at a start. one: not for all. listener: for a
listener of one broker. start: at a start only. hidden: the same, and described only where it is set."""


def _read() -> Iterator[ConfigDef]:
    for groups in json.loads(TABLE.read_text(encoding="utf-8")).values():
        for group in groups:
            served = "accepted" in group
            instead = group["accepted" if served else "refused"]
            for name, kind, default, bounds, importance, change in group["configs"]:
                check = _BOUNDS[bounds[0]](*bounds[1:]) if bounds is not None else None
                yield ConfigDef(
                    name,
                    ConfigType[kind],
                    default,
                    instead,
                    check,
                    importance,
                    served=served,
                    effect=False,
                    **_CHANGES[change],
                )


WITHOUT_EFFECT: Final = tuple(_read())
