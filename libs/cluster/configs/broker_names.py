"""Names of broker configs that are in no table: those of a single listener, and those that nobody knows.

As in Kafka, a broker config may have any name, for the sake of plug-ins, and the prefix `listener.name.NAME.` gives a listener a
value of its own. Both are kept and described. Only a listener's limits of connections have an effect, at the gateways whose
listener has that name. A listener's config is refused where the config without its prefix takes its default only.
"""

import re
from dataclasses import replace
from typing import Final

from libs.cluster.configs.broker_table import BROKER_CONFIGS
from libs.cluster.configs.connection_table import OF_LISTENERS
from libs.cluster.configs.values import ConfigDef, ConfigType, at_least

_OF_A_LISTENER = re.compile(r"listener\.name\.[^.]*\.(.*)", re.DOTALL)
_FOR_ALL_BROKERS: Final = frozenset({*OF_LISTENERS, "num.network.threads"})
"""The configs that a listener can have in the default of all brokers."""
_OF_A_MECHANISM: Final = (
    *("connections.max.reauth.ms", "sasl.jaas.config", "sasl.login.callback.handler.class", "sasl.login.class"),
    "sasl.server.callback.handler.class",
)
"""The configs that a listener can have for each SASL mechanism, whose name comes before theirs."""


def broker_config(name: str) -> ConfigDef:
    """The definition of any broker config. One that is in no table has no default, no documentation and no effect."""
    listed = BROKER_CONFIGS.get(name)
    return listed if listed is not None else _unlisted(name)


def of_listener(listener: str, name: str) -> str:
    """The name of a listener's own value of the config `name`."""
    return f"listener.name.{listener.lower()}.{name}"


def base_name(name: str) -> str | None:
    """The config in the table of which a listener's is one. None: `name` has no listener's prefix, or there is none."""
    prefixed = _OF_A_LISTENER.fullmatch(name)
    if prefixed is None:
        return None
    base = next((each for each in _OF_A_MECHANISM if prefixed[1].endswith(each)), prefixed[1])
    return base if base in BROKER_CONFIGS else None


def _unlisted(name: str) -> ConfigDef:
    prefixed = _OF_A_LISTENER.fullmatch(name)
    base = base_name(name)
    one_broker = prefixed is not None and prefixed[1] not in _FOR_ALL_BROKERS
    unknown = ConfigDef(name, ConfigType.UNKNOWN, None, "", one_broker=one_broker, effect=False, listed=False)
    if base is None:
        return unknown
    listed = BROKER_CONFIGS[base]
    if prefixed is not None and prefixed[1] in OF_LISTENERS:
        return replace(unknown, type=listed.type, check=at_least(1), effect=True, doc=listed.doc)
    # One that is not served asks for what a gateway lacks, under a listener's prefix as without it.
    served = listed.served or listed.effect
    return replace(unknown, type=listed.type, check=listed.check, served=served, doc=listed.doc)
