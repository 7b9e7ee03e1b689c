"""The firewall of a host: rules for nftables, and the unit that loads them before any process of Penstock starts."""

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from services.local.errors import LauncherError
from services.local.host_names import is_address
from services.local.systemd.hosts import ADMIN_ABOVE_RPC, ETCD_CLIENT, ETCD_PEER, RPC_PORTS, Hosts
from services.local.systemd.units import DESCRIPTIONS, ENVIRONMENT, unit_name

FIREWALL_UNIT = "penstock-firewall.service"
RULES = "firewall.nft"
FAMILIES = {4: ("ip", "ipv4_addr", ""), 6: ("ip6", "ipv6_addr", "6")}
"""By version of IP: what nftables calls a packet's header and the type of a set, and the end of the set's name."""


@dataclass(frozen=True)
class Firewall:
    """Hosts reach each other's processes, clients the gateway, operators the admin ports, and nobody else anything of these."""

    hosts: Hosts
    clients: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises LauncherError."""
        for option, given in (("--clients", self.clients), ("--operators", self.operators)):
            for network in given:
                try:
                    ipaddress.ip_network(network)
                except ValueError:
                    raise LauncherError(
                        f"{option} has {network!r}; expected addresses or networks, such as 10.0.0.0/16"
                    ) from None

    def rules(self) -> str:
        """They touch these ports only, so they lock nobody out. The first two lines take away what an earlier file allowed."""
        own = list(RPC_PORTS.values())
        members = f"{ETCD_CLIENT}, {ETCD_PEER}, {own[0]}-{own[-1]}"
        admin = f"{own[0] + ADMIN_ABOVE_RPC}-{own[-1] + ADMIN_ABOVE_RPC}"
        ports = self.hosts.client_ports
        served = f"{ports[0]}-{ports[-1]}"
        allowed = {"hosts": (self.hosts.names, members), "clients": (self.clients, served), "operators": (self.operators, admin)}
        sets = [line for name, (members_of, _) in allowed.items() for line in _sets(name, members_of)]
        accepts = [
            f"        {header} saddr @{name}{end} tcp dport {{ {ports_of} }} accept"
            for name, (members_of, ports_of) in allowed.items()
            for version, (header, _, end) in FAMILIES.items()
            if _of_version(members_of, version)
        ]
        return "\n".join(
            [
                "table inet penstock",
                "delete table inet penstock",
                "table inet penstock {",
                *sets,
                "    chain input {",
                "        type filter hook input priority filter; policy accept;",
                "        iif lo accept",
                *accepts,
                f"        tcp dport {{ {members}, {admin}, {served} }} reject with tcp reset",
                "    }",
                "}",
                "",
            ]
        )

    def unit(self) -> str:
        """Rules are gone after a reboot, and the processes start by themselves: no process starts without them."""
        units = " ".join(unit_name(role) for role in DESCRIPTIONS)
        # nftables resolves names when it loads the rules.
        named = any(not is_address(name) for name in self.hosts.names)
        after = "Wants=network-online.target\nAfter=network-online.target nss-lookup.target\n" if named else ""
        return f"""\
[Unit]
Description=Who may reach Penstock
Before={units}
{after}
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/sbin/nft -f {ENVIRONMENT}/{RULES}

[Install]
RequiredBy={units}
"""


def _sets(name: str, members: Iterable[str]) -> Iterator[str]:
    for version, (_, kind, end) in FAMILIES.items():
        if of_version := _of_version(members, version):
            yield f"    set {name}{end} {{ type {kind}; flags interval; elements = {{ {', '.join(of_version)} }}; }}"


def _of_version(members: Iterable[str], version: int) -> list[str]:
    """Names count as IPv4."""
    found = []
    for member in members:
        try:
            own = ipaddress.ip_network(member).version
        except ValueError:
            own = 4
        if own == version:
            found.append(member)
    return found
