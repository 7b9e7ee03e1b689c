"""The TLS that a process speaks with others over TCP, by its settings."""

import asyncio
import logging
from collections.abc import Sequence

from libs.rpc.messages.peer_names import names_in
from libs.rpc.transport.peer_tls import PeerTls, PeerTlsFiles
from libs.rpc.transport.tls_server import Unusable
from libs.runtime.lifecycle import CannotRun, Lifecycle, end_task
from libs.runtime.service_config import ServiceConfig

log = logging.getLogger("network")


def peer_tls(config: ServiceConfig, role: str, lifecycle: Lifecycle) -> PeerTls | None:
    """None: its settings name no certificate. Follows the files until the process ends. Raises CannotRun."""
    if not config.rpc_tls_certificate:
        return None

    def own(uris: Sequence[str]) -> frozenset[str]:
        """Pods of a kind share a certificate, which comes to name more of them."""
        return frozenset(uri for uri in uris for name in names_in([uri]) if (name.role, name.node_id) == (role, config.node_id))

    try:
        tls = PeerTls(PeerTlsFiles(config.rpc_tls_certificate, config.rpc_tls_key, config.rpc_tls_ca), own)
    except Unusable as error:
        raise CannotRun("no TLS with these files (PENSTOCK_RPC_TLS_CERTIFICATE, _KEY, _CA)", reason=error) from error
    if not own(tls.uris):
        named, expected = ", ".join(tls.uris) or "nobody", f"penstock://CLUSTER/{role}/{config.node_id}"
        raise CannotRun(
            "the certificate of this process is another's (PENSTOCK_RPC_TLS_CERTIFICATE)", names=named, expected=expected
        )
    following = asyncio.create_task(tls.follow(), name="certificates")

    async def close() -> None:
        await end_task(following)
        tls.close()

    lifecycle.on_stop(close)
    return tls
