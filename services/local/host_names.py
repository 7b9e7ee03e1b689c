"""What a host may be called in the options of the launcher."""

import ipaddress
import re
from typing import Final

NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
"""A name or an IPv4 address, without a port."""
ANY: Final = "0.0.0.0"
"""Every address of this machine, at which processes listen. Nobody can connect to it."""
ANY_IPV6: Final = "::"
"""The same, for IPv6 and IPv4."""


def is_address(host: str) -> bool:
    try:
        return bool(ipaddress.ip_address(host)) and "%" not in host
    except ValueError:
        return False


def is_ipv6(host: str) -> bool:
    """Whether it is an IPv6 address, without brackets and without a zone, which other machines would not know."""
    try:
        return ipaddress.ip_address(host).version == 6 and "%" not in host
    except ValueError:
        return False


def with_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
