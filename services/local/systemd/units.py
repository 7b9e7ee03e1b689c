"""The unit files of a host. They differ by role alone: what differs by host is in the environment files."""

from dataclasses import dataclass
from pathlib import Path

ENVIRONMENT = "/etc/penstock"
TARGET = "penstock.target"
DESCRIPTIONS = {
    "etcd": "etcd of Penstock",
    "controller": "Penstock controller",
    "storage": "Penstock storage node",
    "group_coordinator": "Penstock group coordinator",
    "transaction_coordinator": "Penstock transaction coordinator",
    "quota_manager": "Penstock quota manager",
    "gateway": "Penstock gateway",
}
AFTER = {
    "controller": ("etcd",),
    "storage": ("controller",),
    "group_coordinator": ("storage",),
    "transaction_coordinator": ("storage",),
    "quota_manager": ("controller",),
    "gateway": ("group_coordinator", "transaction_coordinator", "quota_manager"),
}
"""Systemd stops in the reverse order: a process that drains needs those behind it."""
STOP_S = 30
"""Longer than any process drains (`libs/runtime/lifecycle.py`)."""


@dataclass(frozen=True)
class Installation:
    """Where the programs are on a host, and the user that runs them."""

    python: Path
    etcd: Path
    user: str = "penstock"


def unit_name(role: str) -> str:
    return f"penstock-{role.replace('_', '-')}.service"


def unit_files(installation: Installation) -> dict[str, str]:
    """By file name."""
    files = {unit_name(role): _service(role, installation) for role in DESCRIPTIONS}
    return {TARGET: _target(), **files}


def _target() -> str:
    wants = " ".join(unit_name(role) for role in DESCRIPTIONS)
    return f"""\
[Unit]
Description=All processes of Penstock on this host
Wants={wants}

[Install]
WantedBy=multi-user.target
"""


# OOMPolicy=continue: a compaction whose child process the kernel killed for memory is tried again, and the node runs on.
def _service(role: str, installation: Installation) -> str:
    after = " ".join(unit_name(other) for other in AFTER.get(role, ()))
    place = role.replace("_", "-")
    return f"""\
[Unit]
Description={DESCRIPTIONS[role]}
Wants=network-online.target
After={" ".join(filter(None, ("network-online.target time-sync.target", after)))}
PartOf={TARGET}
StartLimitIntervalSec=0

[Service]
Type=exec
User={installation.user}
Group={installation.user}
{_process(role, place, installation)}
StateDirectory=penstock/{place}
StateDirectoryMode=0700
Restart=always
RestartSec=2
TimeoutStopSec={STOP_S}
KillMode=mixed
LimitNOFILE=524288
OOMPolicy=continue
{HARDENING}"""


def _process(role: str, place: str, installation: Installation) -> str:
    state = f"/var/lib/penstock/{place}"
    if role == "etcd":
        return f"""\
Environment=ETCD_DATA_DIR={state}/data
EnvironmentFile={ENVIRONMENT}/etcd.env
ExecStart={installation.etcd}"""
    return f"""\
Environment=PENSTOCK_DATA_DIR={state}
Environment=PENSTOCK_RPC_UNIX=/run/penstock/{place}/rpc.sock
EnvironmentFile={ENVIRONMENT}/common.env
EnvironmentFile={ENVIRONMENT}/{place}.env
ExecStart={installation.python} -m services.{role}
RuntimeDirectory=penstock/{place}"""


# Not ProcSubset=pid: processes read /proc/sys and /proc/meminfo.
HARDENING = """\
UMask=0077
NoNewPrivileges=yes
CapabilityBoundingSet=
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
ProtectProc=invisible
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
"""
