"""A search for secrets in all that a cluster has written and shows."""

from base64 import b64encode
from collections.abc import Iterable

from tests.support.cluster_harness import LocalCluster

OF_EACH = ("/metrics", "/debug")
OF_GATEWAYS = ("/debug/connections", "/debug/clients", "/debug/traces")
FILE_BYTES_MAX = 1 << 20


def forms_of(key: bytes) -> list[str]:
    """How logs and pages may show bytes."""
    return [repr(key)[2:-1], key.hex(), b64encode(key).decode()]


def written_and_shown(cluster: LocalCluster) -> dict[str, str]:
    """Pages of admin ports, logs, and small files, each by its name. The store of etcd is the one place that may have keys."""
    found = {f"{name}{path}": cluster.admin(name, path) for name in cluster.names if name != "etcd" for path in OF_EACH}
    gateways = [name for name in cluster.names if name.startswith("gateway")]
    found |= {f"{name}{path}": cluster.admin(name, path) for name in gateways for path in OF_GATEWAYS}
    for path in cluster.directory.rglob("*"):
        is_log = path.suffix == ".log" and "logs" in path.parts
        if path.is_file() and ("etcd" not in str(path) or is_log) and (is_log or path.stat().st_size < FILE_BYTES_MAX):
            found[str(path)] = path.read_bytes().decode("latin-1")
    return found


def expect_no_secret(found: dict[str, str], secrets: Iterable[str]) -> None:
    secrets = [secret for secret in secrets if secret]
    for name, text in found.items():
        shown = [secret for secret in secrets if secret in text]
        assert not shown, f"{name} has {shown}"
