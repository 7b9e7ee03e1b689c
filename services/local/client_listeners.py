"""The listeners of gateways beside the first one, on a machine with several gateways: each gateway has ports of its own.

A port has one owner. So the ports of a listener move by as much as those of the first one do: by a hundred for each gateway.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from services.local.cluster_shape import PORTS_PER_GATEWAY, Shape
from services.local.errors import LauncherError

AUTHORIZER: Final = ("PENSTOCK_AUTHORIZER", "PENSTOCK_SUPER_USERS", "PENSTOCK_ALLOW_EVERYONE_IF_NO_ACL_FOUND")
"""The settings that say who decides what clients may do. A cluster that forgot them would serve everybody."""
AUTHENTICATED: Final = "PENSTOCK_SASL_LISTENER"
PLAINTEXT_LISTENER: Final = "PENSTOCK_PLAINTEXT_LISTENER"
"""Where it is false, the first listener is not there, and another one may have its ports."""
BOUNDS: Final = (
    "PENSTOCK_REAUTHENTICATION_S_MAX",
    "PENSTOCK_AUTHENTICATION_S_MAX",
    "PENSTOCK_FAILED_AUTHENTICATION_DELAY_MS",
    "PENSTOCK_TLS_HANDSHAKE_S_MAX",
)
"""What bounds clients of these listeners. Without the first one, a user who was deleted would stay in after a restart."""
PREFIXES: Final = ("PENSTOCK_SASL_", "PENSTOCK_SSL_", PLAINTEXT_LISTENER, *AUTHORIZER, *BOUNDS)
"""How the settings begin that are remembered, and that every gateway has: of these listeners, and of the authorizer."""
_ADDRESS: Final = re.compile(r"(?P<before>\w+://.+:)(?P<port>\d{1,5})")


def of_gateway(number: int, settings: Mapping[str, str]) -> dict[str, str]:
    """The addresses of one gateway's listeners. `settings`: the first gateway's. What is no address stays for the gateway to
    refuse."""
    own = {}
    for variable, value in settings.items():
        if _is_address(variable) and (address := _ADDRESS.fullmatch(value)) is not None:
            own[variable] = f"{address['before']}{int(address['port']) + PORTS_PER_GATEWAY * (number - 1)}"
    return own


def bootstrap_servers(gateways: Iterable[Mapping[str, str]], *, of_nodes: bool = False) -> dict[str, str]:
    """By protocol, as clients reach the listeners. `gateways`: the settings of each. Each node has its broker's port."""
    servers: dict[str, list[str]] = {}
    for number, settings in enumerate(gateways, 1):
        for variable in _listening(settings):
            told = settings.get(variable.replace("_LISTENER", "_ADVERTISED_LISTENER")) or settings[variable]
            protocol, _, address = told.partition("://")
            host, _, port = address.rpartition(":")
            servers.setdefault(protocol, []).append(f"{host}:{int(port) + (number if of_nodes else 0)}")
    return {protocol: ",".join(addresses) for protocol, addresses in servers.items()}


def refuse_ports_of_others(shape: Shape, gateways: Mapping[str, Mapping[str, str]]) -> None:
    """Raises LauncherError where a listener would take a port that the cluster takes itself, or that another listener takes.
    `gateways`: the settings of each, by its name."""
    taken = dict.fromkeys(shape.ports, f"the cluster with PORT={shape.port} GATEWAYS={shape.gateways}")
    for name, settings in list(gateways.items())[: 1 if shape.has_nodes else None]:  # nodes share one block
        for variable in _listening(settings):
            first = int(settings[variable].rpartition(":")[2])
            if settings.get(PLAINTEXT_LISTENER) == "false" and first == shape.port_base(int(name.rpartition("-")[2])):
                continue  # it is in the place of the first one
            ports = range(first, first + shape.storage + 1)
            if (port := next((port for port in ports if port in taken), None)) is not None:
                raise LauncherError(
                    f"{name} would take the ports {ports.start} to {ports.stop - 1} for {variable}, and {taken[port]} takes "
                    f"port {port}; choose others, such as from {shape.ports.stop} on"
                )
            taken |= dict.fromkeys(ports, f"{variable} of {name}")


def remembered_in(text: str, place: Mapping[str, str], given: Collection[str]) -> str:
    """A sentence about the settings that the text names, and that an earlier `make up` was given. Empty if there are none.
    `place`: those of the process. `given`: those of this `make up`."""
    remembered = [
        variable for variable, value in place.items() if value and variable.startswith(PREFIXES) and variable not in given
    ]
    if not (named := [variable for variable in remembered if re.search(rf"\b{variable}\b", text)]):
        return ""
    ended = "".join(f"{variable}= " for variable in named)
    names = ", ".join(named)
    return f"`make up` remembers {names} from before: give another value, or an empty one to end it (`{ended}make up`). "


def _is_address(variable: str) -> bool:
    return variable.startswith(PREFIXES) and variable.endswith("_LISTENER")


def _listening(settings: Mapping[str, str]) -> list[str]:
    """The settings that name where a listener listens."""
    addresses = [variable for variable, value in settings.items() if _is_address(variable) and _ADDRESS.fullmatch(value)]
    return sorted(variable for variable in addresses if not variable.endswith("_ADVERTISED_LISTENER"))
