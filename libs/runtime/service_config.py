"""The settings that every service has. A service's `config.py` adds its own."""

import math
import os

from libs.host_port import split_port
from libs.lean_dataclass import dataclass
from libs.telemetry.logs import LogSettings

PORT_MAX = 65_535
SOCKET_PATH_MAX = 107
SILENCE_S_MIN, SILENCE_S_MAX = 1.5, 60.0
WILDCARDS = ("0.0.0.0", "[::]", "::")
"""Hosts that mean every address of this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceConfig:
    """Environment variables are `PENSTOCK_` and the field's name in capitals (`libs/runtime/config.py`)."""

    node_id: int
    """From 1, of its own among processes of its kind. A storage node's is its broker id."""
    etcd: tuple[str, ...]
    """`host:port` of each member of etcd."""
    etcd_ca_file: str = ""
    """PEM file of the authorities whose etcd is trusted. With it, the process speaks TLS with etcd
    ([security](security.md#etcd)). A change of the three files takes effect without a restart."""
    etcd_cert_file: str = ""
    """PEM file of the certificate that the process shows to etcd, with its chain. Its common name is the user."""
    etcd_key_file: str = ""
    """PEM file of the certificate's private key, without a password. It may be the same file."""
    data_dir: str
    """The directory for what a process must remember of its last start. One process at a time uses it."""
    rpc_unix: str = ""
    """The path of the socket for callers on this host."""
    rpc_tcp: str = ""
    """`host:port` for callers from anywhere. Empty: none."""
    rpc_advertised_host: str = ""
    """The name or address of this host for callers of `rpc_tcp`. Empty: the address that it listens at."""
    rpc_tls_certificate: str = ""
    """PEM file of the certificate that this process shows on TCP connections to others, with its chain. It names the process by a
    URI, `penstock://CLUSTER/ROLE/NODE` ([security](security.md#between-hosts)). With it, `rpc_tcp` and all calls over TCP speak
    TLS, and demand a certificate. A change of the three files takes effect without a restart."""
    rpc_tls_key: str = ""
    """PEM file of the certificate's private key, without a password."""
    rpc_tls_ca: str = ""
    """PEM file of the authorities that sign the certificates of this cluster's processes, and nobody else's."""
    host_id: str = ""
    """Processes of one kernel share it, and so may share Unix sockets. Empty: the kernel's boot id."""
    admin_host: str = "127.0.0.1"
    """Where `/healthz`, `/readyz`, `/health` (of the cluster), `/metrics` and `/debug` are served."""
    admin_port: int = 0
    """0: any free port."""
    admin_token_file: str = ""
    """File of the token that everything of the admin port but `/healthz` and `/readyz` demands, as `Authorization: Bearer TOKEN`
    ([security](security.md#admin-ports)). It is read again when it changes. Empty: none is needed."""
    admin_names: tuple[str, ...] = ()
    """Names with a dot by which the admin port may be asked without a token, besides `admin_host`, `rpc_advertised_host` and the
    host's own. Addresses and names without a dot always may."""
    log_level: str = "info"
    """`trace`, `debug`, `info`, `warning` or `error`."""
    log_format: str = "text"
    """`text` (`key=value`) or `json`: one object a line."""
    log_file: str = ""
    """Where it logs. Empty: to stderr."""
    log_file_bytes_max: int = 67_108_864
    """From this size on the log file is renamed to `FILE.1`, and a new one begins."""
    log_former_files_max: int = 3
    """How many log files `FILE.1`, `FILE.2` and so on stay."""
    member_ttl_s: int = 3
    """The lease of its registration. The process is missed after that, if no controller notices before. `silence_s` counts where
    it is longer."""
    silence_s: float = 2.0
    """How long a process may be silent until others give it up. Controllers then take it for dead, and callers end their
    connections to it. It stands for Kafka's `broker.session.timeout.ms`. Set it alike for all processes, higher where a busy
    host or a slow link stops processes for seconds. The partitions of a leader that hangs or is cut off then stand still for that
    much longer."""
    trace_sample_ratio: float | None = None
    """The fraction of requests that are traced whatever happens to them, from 0 to 1. Empty: as `OTEL_TRACES_SAMPLER` says, or
    0.01. Slow and failed requests are traced besides."""
    trace_slow_ms: tuple[str, ...] = ("100",)
    """Milliseconds from which on a request is slow, and traced. `API=milliseconds` holds for one API, as in `100,JoinGroup=3000`.
    A long poll is not slow while it waits as its client asked. Give gateways and storage nodes the same."""
    trace_spans_per_second: int = 200
    """The cap on the spans of this process. 0: it makes none."""
    trace_exporter: str = ""
    """`otlp`, `zipkin` or `none`. Empty: `otlp` where an endpoint is given; otherwise as `OTEL_TRACES_EXPORTER` says, or none."""
    trace_endpoint: str = ""
    """The URL that spans are sent to, such as `http://collector:4318`. OTLP's path is added where it has none. Empty: as
    OpenTelemetry's variables say ([traces](operate/tracing.md))."""
    peers: tuple[str, ...] = ()
    """`host:port` of the RPC of other processes. They lend the metadata to a start with a new data directory while etcd is away.
    Storage nodes start with etcd only."""

    @property
    def lease_s(self) -> int:
        """The lease of the registration: a process that may be silent keeps it meanwhile."""
        return max(self.member_ttl_s, math.ceil(self.silence_s))

    @property
    def logging(self) -> LogSettings:
        """Raises ValueError."""
        return LogSettings(self.log_level, self.log_format, self.log_file, self.log_file_bytes_max, self.log_former_files_max)

    def problem(self) -> str | None:
        """What is wrong with the settings of a process, in a sentence. `trace_settings.py` checks those of traces. Services in
        tests and simulations have no such bounds."""
        if self.node_id < 1:
            return f"PENSTOCK_NODE_ID is {self.node_id}; expected 1 or more"
        if not self.data_dir:
            return "PENSTOCK_DATA_DIR is empty; expected a path"
        if not self.etcd:
            return "PENSTOCK_ETCD is empty; expected host:port of each member of etcd"
        rpc_tcp = (self.rpc_tcp,) if self.rpc_tcp else ()
        for variable, addresses in (("ETCD", self.etcd), ("PEERS", self.peers), ("RPC_TCP", rpc_tcp)):
            for address in addresses:
                host, port = split_port(address)
                if not host or not port.isdecimal() or not 0 <= int(port) <= PORT_MAX:
                    return f"PENSTOCK_{variable} has {address!r}; expected host:port"
        if self.rpc_tcp.rpartition(":")[0] in WILDCARDS and not self.rpc_advertised_host:
            return f"PENSTOCK_RPC_TCP is {self.rpc_tcp!r}, and nobody can connect to that; expected PENSTOCK_RPC_ADVERTISED_HOST"
        if len(os.fsencode(self.rpc_unix)) > SOCKET_PATH_MAX:
            return f"PENSTOCK_RPC_UNIX is longer than {SOCKET_PATH_MAX} bytes, which the address of a socket holds"
        tls = {"CERTIFICATE": self.rpc_tls_certificate, "KEY": self.rpc_tls_key, "CA": self.rpc_tls_ca}
        if any(tls.values()) and (missing := [f"PENSTOCK_RPC_TLS_{name}" for name, path in tls.items() if not path]):
            return f"{missing[0]} is empty; expected all three of PENSTOCK_RPC_TLS_CERTIFICATE, _KEY and _CA, or none"
        if problem := self._etcd_problem():
            return problem
        if problem := host_problem("ADMIN_HOST", self.admin_host):
            return problem
        if not 0 <= self.admin_port <= PORT_MAX:
            return f"PENSTOCK_ADMIN_PORT is {self.admin_port}; expected 0 to {PORT_MAX}"
        if self.member_ttl_s < 1:
            return f"PENSTOCK_MEMBER_TTL_S is {self.member_ttl_s}; expected 1 or more"
        if not SILENCE_S_MIN <= self.silence_s <= SILENCE_S_MAX:
            return f"PENSTOCK_SILENCE_S is {self.silence_s}; expected {SILENCE_S_MIN} to {SILENCE_S_MAX}"
        try:
            self.logging  # noqa: B018  it checks itself
        except ValueError as error:
            return str(error)
        return None

    def _etcd_problem(self) -> str | None:
        if bool(self.etcd_cert_file) != bool(self.etcd_key_file):
            missing = "KEY" if self.etcd_cert_file else "CERT"
            return f"PENSTOCK_ETCD_{missing}_FILE is empty; expected both of PENSTOCK_ETCD_CERT_FILE and _KEY_FILE, or neither"
        if self.etcd_cert_file and not self.etcd_ca_file:
            return "PENSTOCK_ETCD_CA_FILE is empty; expected the authorities of etcd, since PENSTOCK_ETCD_CERT_FILE is set"
        return None


def host_problem(variable: str, host: str) -> str | None:
    return None if host.strip() else f"PENSTOCK_{variable} is empty; expected the name or address of a host"


def require_rpc_address(config: ServiceConfig, service: str) -> None:
    """For `__post_init__` of a service that answers others. Raises ValueError."""
    if not config.rpc_unix and not config.rpc_tcp:
        raise ValueError(f"PENSTOCK_RPC_UNIX or PENSTOCK_RPC_TCP must be set: nobody could reach this {service}")
