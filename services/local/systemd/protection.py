"""What `--secured` adds to the settings of a host: certificates between processes and for etcd, and a token of admin ports.

One certificate is for both: its URI names the process, and its common name the process's user of etcd (docs/security.md).
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from services.local.errors import LauncherError
from services.local.systemd.hosts import RPC_PORTS
from services.local.systemd.units import ENVIRONMENT

CERTIFICATES = f"{ENVIRONMENT}/certificates"
AUTHORITY = f"{CERTIFICATES}/ca.crt"
TOKEN = f"{ENVIRONMENT}/admin-token"


def require_files(into: Path) -> None:
    """Raises LauncherError if a file is missing without which a process would not start. `into`: the root of the host."""
    for path in _files():
        if not (into / path.lstrip("/")).exists():
            raise LauncherError(
                f"--secured needs {path}, which is not there (docs/operate/three-hosts.md, Certificates and a token)"
            )


def _files() -> Iterable[str]:
    pairs = [path for role in ("etcd", *RPC_PORTS) for path in _own(role)]
    return [AUTHORITY, *pairs, TOKEN]


def _own(role: str) -> tuple[str, str]:
    return f"{CERTIFICATES}/{role}.crt", f"{CERTIFICATES}/{role}.key"


def of_etcd() -> Mapping[str, str]:
    certificate, key = _own("etcd")
    settings: dict[str, str] = {}
    for side in ("", "PEER_"):
        settings |= {
            f"ETCD_{side}CERT_FILE": certificate,
            f"ETCD_{side}KEY_FILE": key,
            f"ETCD_{side}TRUSTED_CA_FILE": AUTHORITY,
            f"ETCD_{side}CLIENT_CERT_AUTH": "true",
        }
    return settings


def of_all_services() -> Mapping[str, str]:
    return {"PENSTOCK_RPC_TLS_CA": AUTHORITY, "PENSTOCK_ETCD_CA_FILE": AUTHORITY, "PENSTOCK_ADMIN_TOKEN_FILE": TOKEN}


def of_service(role: str) -> Mapping[str, str]:
    certificate, key = _own(role)
    return {
        "PENSTOCK_RPC_TLS_CERTIFICATE": certificate,
        "PENSTOCK_RPC_TLS_KEY": key,
        "PENSTOCK_ETCD_CERT_FILE": certificate,
        "PENSTOCK_ETCD_KEY_FILE": key,
    }
