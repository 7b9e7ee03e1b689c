"""The TLS that a process speaks with others over TCP, by its settings."""

import asyncio
import logging
from collections.abc import Collection, Sequence

from libs.pem_files import Unusable
from libs.rpc.messages.peer_names import names_in
from libs.rpc.transport.peer_tls import PeerTls, PeerTlsFiles
from libs.runtime.lifecycle import CannotRun, Lifecycle, end_task
from libs.runtime.service_config import ServiceConfig
from libs.telemetry.definitions import GaugeDefinition, MetricSet
from libs.telemetry.metrics import Metrics

log = logging.getLogger("network")


class PeerCertificate(MetricSet):
    """The metrics of a process's certificate for other processes. None: it has none."""

    def __init__(self, tls: PeerTls | None) -> None:
        super().__init__()
        self._tls = tls

    @GaugeDefinition(
        name="penstock_rpc_certificate_expiry_timestamp_seconds",
        help="When the certificate that this process shows to others expires, in seconds since the epoch. 0: there is none.",
        healthy="weeks ahead, or 0",
        otherwise="Replace the file of `PENSTOCK_RPC_TLS_CERTIFICATE`: it is read again within seconds. "
        "`new certificate of this process not used` in its log has the reason if it is not.",
    )
    def expires_at(self) -> float:
        return self._tls.expires_at if self._tls is not None else 0


def peer_tls(config: ServiceConfig, roles: Collection[str], lifecycle: Lifecycle, metrics: Metrics) -> PeerTls | None:
    """None: its settings name no certificate. Follows the files until the process ends. `roles`: of the services in the process,
    all of which the certificate must name. Raises CannotRun."""
    tls = _of_settings(config, roles) if config.rpc_tls_certificate else None
    metrics.registry.register(PeerCertificate(tls))
    if tls is None:
        return None
    following = asyncio.create_task(tls.follow(), name="certificates")

    async def close() -> None:
        await end_task(following)
        tls.close()

    lifecycle.on_stop(close)
    return tls


def _of_settings(config: ServiceConfig, roles: Collection[str]) -> PeerTls:
    """Raises CannotRun."""
    expected = [f"penstock://CLUSTER/{role}/{config.node_id}" for role in roles]

    def own(uris: Sequence[str]) -> frozenset[str]:
        """Pods of a kind share a certificate, which comes to name more of them."""
        return frozenset(uri for uri in uris for name in names_in([uri]) if name.role in roles and name.node_id == config.node_id)

    try:
        tls = PeerTls(PeerTlsFiles(config.rpc_tls_certificate, config.rpc_tls_key, config.rpc_tls_ca), own)
    except Unusable as error:
        raise CannotRun("no TLS with these files (PENSTOCK_RPC_TLS_CERTIFICATE, _KEY, _CA)", reason=error) from error
    if {name.role for name in names_in(list(own(tls.uris)))} != set(roles):
        named = ", ".join(tls.uris) or "nobody"
        raise CannotRun(
            "the certificate of this process is another's (PENSTOCK_RPC_TLS_CERTIFICATE)",
            names=named,
            expected=" and ".join(expected),
        )
    return tls
