"""The metadata store in etcd, by the settings of a process."""

import asyncio
from collections.abc import Mapping
from functools import partial

from libs.cluster.etcd.etcd_store import EtcdStore
from libs.cluster.etcd.etcd_tls import EtcdTls, TlsFiles
from libs.cluster.etcd.server_certificates import ServerCertificates
from libs.pem_files import Unusable
from libs.runtime.lifecycle import CannotRun, Lifecycle, end_task
from libs.runtime.service_config import ServiceConfig
from libs.telemetry.definitions import GaugeDefinition, MetricSet
from libs.telemetry.metrics import Metrics


class EtcdCertificates(MetricSet):
    """The metrics of certificates between a process and etcd. None: they speak no TLS."""

    def __init__(self, tls: EtcdTls | None, servers: ServerCertificates | None) -> None:
        super().__init__()
        self._tls, self._servers = tls, servers

    @GaugeDefinition(
        name="penstock_metadata_store_certificate_expiry_timestamp_seconds",
        help="When the certificate expires by which etcd knows this process, in seconds since the epoch. 0: there is none.",
        healthy="weeks ahead, or 0",
        otherwise="Replace the file of `PENSTOCK_ETCD_CERT_FILE`: it is read again within seconds. "
        "`new certificate for etcd not used` in the process's log has the reason if it is not.",
    )
    def expires_at(self) -> float:
        return self._tls.expires_at if self._tls is not None else 0

    @GaugeDefinition(
        name="penstock_metadata_store_server_certificate_expiry_timestamp_seconds",
        help="When the certificate expires that etcd shows to this process, in seconds since the epoch: the earliest of all "
        "members. 0: none, or no member has answered yet.",
        healthy="weeks ahead, or 0",
        otherwise="Replace the files of etcd's `--cert-file` and `--key-file`: it reads them at the next connection, and this "
        "process looks every ten minutes.",
    )
    def server_expires_at(self) -> float:
        return self._servers.expires_at if self._servers is not None else 0


def etcd_store(config: ServiceConfig, lifecycle: Lifecycle, metrics: Metrics) -> EtcdStore:
    """Follows the files of TLS until the process ends. Raises CannotRun."""
    tls = _of_settings(config) if config.etcd_ca_file else None
    servers = ServerCertificates(config.etcd, tls) if tls is not None else None
    metrics.registry.register(EtcdCertificates(tls, servers))
    if tls is None or servers is None:
        return EtcdStore(config.etcd)
    for work, name in ((tls.follow(), "certificates for etcd"), (servers.follow(), "certificates of etcd")):
        following = asyncio.create_task(work, name=name)
        lifecycle.on_stop(partial(end_task, following))
    return EtcdStore(config.etcd, tls=tls)


def _of_settings(config: ServiceConfig) -> EtcdTls:
    """Raises CannotRun."""
    try:
        return EtcdTls(TlsFiles(config.etcd_ca_file, config.etcd_cert_file, config.etcd_key_file), config.etcd)
    except Unusable as error:
        raise CannotRun("no TLS to etcd with these files (PENSTOCK_ETCD_CA_FILE, _CERT_FILE, _KEY_FILE)", reason=error) from error


def etcd_tls_of(environment: Mapping[str, str]) -> EtcdTls | None:
    """That of a command, which takes the variables of a service. None: they name no authority. Raises Unusable."""
    ca, certificate, key = (environment.get(f"PENSTOCK_ETCD_{name}_FILE", "") for name in ("CA", "CERT", "KEY"))
    if not ca and (certificate or key):
        raise Unusable("PENSTOCK_ETCD_CA_FILE is empty; expected the authorities of etcd, since a certificate is set")
    if bool(certificate) != bool(key):
        raise Unusable("PENSTOCK_ETCD_CERT_FILE and PENSTOCK_ETCD_KEY_FILE: expected both, or neither")
    return EtcdTls(TlsFiles(ca, certificate, key)) if ca else None
