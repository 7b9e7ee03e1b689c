"""Settings of a gateway. Environment variables are `PENSTOCK_` and the field's name in capitals."""

from math import inf
from typing import Final

from libs.cluster.configs.connection_table import (
    MAX_CONNECTION_CREATION_RATE,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_IP,
    MAX_CONNECTIONS_PER_IP_OVERRIDES,
)
from libs.cluster.configs.definitions import BROKER_CONFIGS, ConfigError
from libs.cluster.scram_credentials import SCRAM_SHA_256, SCRAM_SHA_512
from libs.host_port import without_brackets
from libs.lean_dataclass import dataclass
from libs.rpc.transport.transport import KERNELS_CHOICE
from libs.runtime.service_config import PORT_MAX, ServiceConfig, host_problem
from services.gateway.core.authentication import OAUTHBEARER, REAUTHENTICATION_S_MIN
from services.gateway.core.authorizer_settings import authorizer_problem
from services.gateway.core.bearer_token import TokenRules
from services.gateway.core.listener_settings import (
    CLIENT_AUTH,
    DEFAULT_MAPPING,
    PLAINTEXT,
    SSL,
    TLS_VERSIONS,
    WITH_SASL,
    WITH_TLS,
    Address,
    Unserved,
    check_advertised,
    check_mechanisms,
    check_store_type,
    check_tls_versions,
    listener_address,
    port_clash,
)
from services.gateway.core.oauthbearer_settings import CLOCK_SKEW_S_MAX, REFRESH_S_MIN, NoKeySource, Oauthbearer, key_source

_FILES_OF_TLS: Final = ("ssl_keystore_location", "ssl_key_location", "ssl_key_password_file", "ssl_truststore_location")
_CONNECTION_SETTINGS: Final = {
    MAX_CONNECTIONS: "connections_max",
    MAX_CONNECTIONS_PER_IP: "connections_per_ip_max",
    MAX_CONNECTIONS_PER_IP_OVERRIDES: "connections_per_ip_overrides",
    MAX_CONNECTION_CREATION_RATE: "connection_creation_rate_max",
}
"""Kafka's configs, and the settings that stand for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig(ServiceConfig):
    """The settings of one gateway.

    `port_base` is the bootstrap port. Broker id i has port `port_base + i`, both advertised and listened to. The advertised
    address is the one that clients reach. It is never guessed from the local socket, since port maps and NAT change it.
    """

    port_base: int
    """The bootstrap port. Broker id i has port `port_base` + i."""
    listen_host: str = "127.0.0.1"
    """The address of the listening sockets."""
    advertised_host: str = "127.0.0.1"
    """The host that Metadata names to clients."""
    advertised_port_base: int = 0
    """The bootstrap port as clients reach it. 0: `port_base`."""
    listener_name: str = "PLAINTEXT"
    """The listener's name, as in Kafka's `listeners`."""
    plaintext_listener: bool = True
    """Whether the listener is there that asks nobody who they are, at `port_base`. false: it is not, and a listener with TLS or
    SASL must be."""
    sasl_listener: str = ""
    """A listener on which clients authenticate by SASL, as in Kafka's `listeners`: `SASL_SSL://0.0.0.0:9492` with TLS, or
    `SASL_PLAINTEXT://0.0.0.0:9492` without, where records cross the network readably. Its port is the bootstrap port, and broker
    id i has that port plus i. Empty: there is none."""
    sasl_advertised_listener: str = ""
    """The listener with SASL as clients reach it, as in Kafka's `advertised.listeners`. Empty: as it is in `sasl_listener`."""
    sasl_enabled_mechanisms: tuple[str, ...] = (SCRAM_SHA_256, SCRAM_SHA_512)
    """The mechanisms of that listener, as Kafka's `sasl.enabled.mechanisms`: SCRAM-SHA-256, SCRAM-SHA-512, PLAIN,
    OAUTHBEARER. Users are those of `kafka-configs --entity-type users`, also for PLAIN, or are named by tokens."""
    sasl_plain_without_tls: bool = False
    """Whether PLAIN may be enabled on SASL_PLAINTEXT, though anyone on the network can read its passwords."""
    sasl_oauthbearer_without_tls: bool = False
    """Whether OAUTHBEARER may be enabled on SASL_PLAINTEXT, though anyone on the network can read its tokens."""
    sasl_oauthbearer_jwks_endpoint_url: str = ""
    """The JSON Web Key Set that tokens of OAUTHBEARER are checked by, as Kafka's `sasl.oauthbearer.jwks.endpoint.url`:
    `https://…` or `file:///…`. No other address is asked, and redirects and proxies are not followed."""
    sasl_oauthbearer_jwks_endpoint_refresh_s: float = 3600.0
    """The time from one read of the key set to the next, as Kafka's `sasl.oauthbearer.jwks.endpoint.refresh.ms` in seconds. A
    token of an unknown key has it read at once, every 10 s at most."""
    sasl_oauthbearer_jwks_ca_file: str = ""
    """The certificates of the authorities that the endpoint's certificate is checked by. Empty: those of the system."""
    sasl_oauthbearer_expected_issuer: str = ""
    """The issuer that tokens must have, as Kafka's `sasl.oauthbearer.expected.issuer`. Empty: any."""
    sasl_oauthbearer_expected_audience: tuple[str, ...] = ()
    """Tokens must be for one of these, as Kafka's `sasl.oauthbearer.expected.audience`. Empty: for anybody."""
    sasl_oauthbearer_sub_claim_name: str = "sub"
    """The claim that names the user, as Kafka's `sasl.oauthbearer.sub.claim.name`."""
    sasl_oauthbearer_clock_skew_s: float = 30.0
    """How far clocks may differ where a token expires or begins, as Kafka's `sasl.oauthbearer.clock.skew.seconds`."""
    reauthentication_s_max: float = 0.0
    """The session of a client of that listener, as Kafka's `connections.max.reauth.ms` in seconds. A client authenticates again
    on its connection before the end. After it, the next request closes the connection. 0: sessions do not end."""
    authentication_s_max: float = 10.0
    """The time in which a client of the listener with SASL must have authenticated."""
    failed_authentication_delay_ms: int = 100
    """The wait before a wrong password is answered and its connection closed, as Kafka's
    `connection.failed.authentication.delay.ms`. Each further one from the same address or for the same user within a minute waits
    twice as long, up to 16 times."""
    authorizer: str = ""
    """Who decides what clients may do, as Kafka's `authorizer.class.name`: `StandardAuthorizer`, by ACLs. Empty: everybody may do
    everything. All gateways must have the same. Clients that have not authenticated are `User:ANONYMOUS`."""
    super_users: str = ""
    """Principals who may do everything, as Kafka's `super.users`: `User:admin;User:pipeline`."""
    allow_everyone_if_no_acl_found: bool = False
    """Whether everybody may use resources that no ACL names, as Kafka's `allow.everyone.if.no.acl.found`."""
    ssl_listener: str = ""
    """A listener with TLS and without SASL, as in Kafka's `listeners`: `SSL://0.0.0.0:9592`. Its port is the bootstrap port, and
    broker id i has that port plus i. Empty: there is none."""
    ssl_advertised_listener: str = ""
    """The listener with TLS as clients reach it, as in Kafka's `advertised.listeners`. Empty: as it is in `ssl_listener`."""
    ssl_keystore_location: str = ""
    """The PEM file of the gateway's private key, its certificate, and the certificates between it and the authority, as Kafka's
    `ssl.keystore.location` with `ssl.keystore.type=PEM`. SSL and SASL_SSL need it."""
    ssl_key_location: str = ""
    """The PEM file of the private key, where the keystore has the certificates alone, as `tls.key` beside `tls.crt` in a Secret
    of Kubernetes. Empty: the keystore has it."""
    ssl_keystore_type: str = "PEM"
    """As Kafka's `ssl.keystore.type`: PEM. JKS and PKCS12 are refused."""
    ssl_key_password_file: str = ""
    """The file of the private key's password, which stands for Kafka's `ssl.key.password`. Empty: the key is not encrypted."""
    ssl_truststore_location: str = ""
    """The PEM file of the authorities that certificates of clients are checked by, as Kafka's `ssl.truststore.location` with
    `ssl.truststore.type=PEM`."""
    ssl_truststore_type: str = "PEM"
    """As Kafka's `ssl.truststore.type`: PEM. JKS and PKCS12 are refused."""
    ssl_client_auth: str = "none"
    """Whether clients of the listener with TLS and without SASL show a certificate, as Kafka's `ssl.client.auth`: `none`,
    `requested` or `required`. Its subject is the user then. Without one, the user is ANONYMOUS."""
    sasl_ssl_client_auth: str = "none"
    """The same for the listener SASL_SSL, as Kafka's `listener.name.sasl_ssl.ssl.client.auth` (KIP-684). The user is that of
    SASL."""
    ssl_principal_mapping_rules: str = "DEFAULT"
    """How the subject of a certificate becomes the name of a user, as Kafka's `ssl.principal.mapping.rules`:
    `RULE:^CN=([^,]*).*$/$1/L,DEFAULT`. Patterns are those of RE2. DEFAULT: the whole name."""
    ssl_enabled_protocols: tuple[str, ...] = TLS_VERSIONS
    """The versions of TLS, as Kafka's `ssl.enabled.protocols`: TLSv1.2, TLSv1.3."""
    tls_handshake_s_max: float = 10.0
    """The time in which a client must have sent its part of the TLS handshake."""
    rack: str = ""
    """The rack or zone of this gateway."""
    member_ttl_s: int = 2
    """The lease of its registration, in seconds."""
    fenced_broker_s_max: float = 300.0
    """The time for which Metadata still names a storage node that is registered and not alive. Its port stays open, and clients
    keep their connections. 0: not at all, as in Kafka. DescribeCluster names only nodes that are alive."""

    connections_max: int = 0
    """The most client connections, as Kafka's `max.connections`, but 2 at least. One beyond is closed. 0, or more: what the limit
    of open files leaves beside `open_files_max` and the connections to other processes. The four limits of connections hold for
    this gateway, unless `kafka-configs --entity-type brokers --entity-default` has another value."""
    connections_per_ip_max: int = 0
    """The most connections from one address, as Kafka's `max.connections.per.ip`. One beyond is closed. 0: no limit."""
    connections_per_ip_overrides: tuple[str, ...] = ()
    """Addresses with a limit of their own, as Kafka's `max.connections.per.ip.overrides`: `10.0.0.7:200,::1:50`."""
    connection_creation_rate_max: int = 0
    """The most connections that are taken in a second, as Kafka's `max.connection.creation.rate`. Further ones wait. 0: no
    limit."""
    frame_bytes_max: int = 104_857_600
    """The longest request, as Kafka's `socket.request.max.bytes`."""
    connection_requests_max: int = 256
    """The unanswered requests of one connection. At the bound, no more are read."""
    connection_bytes_max: int = 33_554_432
    """The bytes of unanswered requests of one connection. At the bound, no more are read."""
    queued_request_bytes_max: int = 134_217_728
    """The bytes of unanswered and of incomplete requests, of all connections together, as Kafka's `queued.max.request.bytes`. At
    the bound, connections are not read until there is room. An eighth is kept for those that hold little. If `frame_bytes_max`
    does not fit in front of it, the bound is higher."""
    crowded_s_max: float = 2.0
    """While connections wait for room, a request must have arrived and begun within so long. Else its connection is closed. A
    request that arrives gets a second more for each 4 MiB."""
    parked_bytes_max: int = 67_108_864
    """The bytes of batches that wait for a leader, of all connections together."""
    half_frame_s_max: float = 30.0
    """The time in which a request must arrive completely, plus a second for each 16,384 bytes that have arrived. Also the longest
    wait for room in `queued_request_bytes_max`."""
    unread_answer_bytes_max: int = 67_108_864
    """The bytes of answers in memory that clients have not read, of all connections together. Above half, records leave by
    sendfile only, and a client that reads nothing for `crowded_s_max` is disconnected."""
    unread_answers_s_max: float = 30.0
    """A client that reads none of its answers for so long is disconnected."""
    idle_s_max: float = 600.0
    """The time without a request after which a connection is closed, as Kafka's `connections.max.idle.ms`."""
    drain_s_max: float = 10.0
    """The longest wait for outstanding requests when the gateway stops."""

    socket_send_buffer_bytes: int = 102_400
    """The send buffer of client connections, as Kafka's `socket.send.buffer.bytes`. The kernel takes twice as much. -1: the
    kernel sizes it, which clients far away need: a connection sends no more than one buffer in a round trip."""
    fetch_wait_ms_max: int = 60_000
    """The longest wait of a Fetch for records, whatever its client asks for. The requests behind it wait as long."""
    fetch_bytes_max: int = 57_671_680
    """The largest answer to a Fetch, as Kafka's `fetch.max.bytes`."""
    sendfile_bytes_min: int = 131_072
    """Records of at least so many bytes leave by sendfile, without being read into memory."""
    open_files_max: int = 512
    """The number of segment files that are kept open. At most one for sixteen of the limit of open files."""
    open_file_idle_s: float = 30.0
    """A file that is not read for so long is closed. A deleted segment takes disk space while it is open."""

    shortcuts: bool = True
    """Whether requests that repeat an earlier one are recognised, and begun without parsing them. false, for diagnosis: each is
    parsed, and each leader asked. Answers are the same."""

    @property
    def connection_configs(self) -> dict[str, str]:
        """The limits of connections that are set, under Kafka's names."""
        given = {name: getattr(self, setting) for name, setting in _CONNECTION_SETTINGS.items()}
        given[MAX_CONNECTIONS_PER_IP_OVERRIDES] = ",".join(self.connections_per_ip_overrides)
        return {name: str(value) for name, value in given.items() if value}

    @property
    def sasl_address(self) -> Address:
        """Where the listener with SASL listens. Raises Unserved."""
        return listener_address(self.sasl_listener, WITH_SASL)

    @property
    def sasl_advertised_address(self) -> Address:
        """Where clients reach it. Raises Unserved."""
        return listener_address(self.sasl_advertised_listener or self.sasl_listener, WITH_SASL)

    @property
    def ssl_address(self) -> Address:
        """Where the listener with TLS and without SASL listens. Raises Unserved."""
        return listener_address(self.ssl_listener, (SSL,))

    @property
    def ssl_advertised_address(self) -> Address:
        """Where clients reach it. Raises Unserved."""
        return listener_address(self.ssl_advertised_listener or self.ssl_listener, (SSL,))

    @property
    def _sasl_has_tls(self) -> bool:
        return bool(self.sasl_listener) and self.sasl_address.protocol in WITH_TLS

    def _address_problem(self, setting: str, protocols: tuple[str, ...]) -> str | None:
        """Of one listener. `setting`: sasl_listener or ssl_listener."""
        advertised = setting.replace("_", "_advertised_")
        listens, told = getattr(self, setting), getattr(self, advertised)
        if not listens:
            return f"PENSTOCK_{advertised.upper()} needs PENSTOCK_{setting.upper()}" if told else None
        at = setting
        try:
            address = listener_address(listens, protocols)
            if told:
                at = advertised
                check_advertised(address, listener_address(told, protocols))
        except Unserved as error:
            return f"PENSTOCK_{at.upper()}: {error}"
        if self.listener_name == address.protocol:
            return f"PENSTOCK_LISTENER_NAME is {address.protocol}, which is the name of PENSTOCK_{setting.upper()}"
        return host_problem(setting.upper(), address.host) or host_problem(
            advertised.upper(), listener_address(told or listens, protocols).host
        )

    @property
    def oauthbearer(self) -> Oauthbearer | None:
        """None: the mechanism is not enabled. Raises NoKeySource."""
        if OAUTHBEARER not in self.sasl_enabled_mechanisms:
            return None
        rules = TokenRules(
            self.sasl_oauthbearer_expected_issuer,
            self.sasl_oauthbearer_expected_audience,
            self.sasl_oauthbearer_sub_claim_name,
            self.sasl_oauthbearer_clock_skew_s,
        )
        source = key_source(self.sasl_oauthbearer_jwks_endpoint_url, self.sasl_oauthbearer_jwks_ca_file)
        return Oauthbearer(source, rules, self.sasl_oauthbearer_jwks_endpoint_refresh_s)

    def _oauthbearer_problem(self) -> str | None:
        try:
            enabled = self.oauthbearer
        except NoKeySource as error:
            return f"PENSTOCK_SASL_OAUTHBEARER_JWKS_ENDPOINT_URL {error}"
        if enabled is None:
            return None
        if not self.sasl_oauthbearer_sub_claim_name:
            return "PENSTOCK_SASL_OAUTHBEARER_SUB_CLAIM_NAME is empty; expected the name of a claim"
        if not 0 <= self.sasl_oauthbearer_clock_skew_s <= CLOCK_SKEW_S_MAX:
            skew_s = self.sasl_oauthbearer_clock_skew_s
            return f"PENSTOCK_SASL_OAUTHBEARER_CLOCK_SKEW_S is {skew_s}; expected 0 to {CLOCK_SKEW_S_MAX}"
        if not self.sasl_oauthbearer_jwks_endpoint_refresh_s >= REFRESH_S_MIN:
            refresh_s = self.sasl_oauthbearer_jwks_endpoint_refresh_s
            return f"PENSTOCK_SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_S is {refresh_s}; expected {REFRESH_S_MIN} or more"
        return None

    def _sasl_problem(self) -> str | None:
        if (problem := self._address_problem("sasl_listener", WITH_SASL)) is not None or not self.sasl_listener:
            return problem
        try:
            check_mechanisms(
                self.sasl_enabled_mechanisms,
                plain_is_allowed=self.sasl_plain_without_tls or self._sasl_has_tls,
                oauthbearer_is_allowed=self.sasl_oauthbearer_without_tls or self._sasl_has_tls,
            )
        except Unserved as error:
            return f"PENSTOCK_SASL_ENABLED_MECHANISMS: {error}"
        if (problem := self._oauthbearer_problem()) is not None:
            return problem
        session_s = self.reauthentication_s_max
        if session_s and not session_s >= REAUTHENTICATION_S_MIN:
            return f"PENSTOCK_REAUTHENTICATION_S_MAX is {session_s}; expected 0, or {REAUTHENTICATION_S_MIN} or more"
        return None

    def _tls_problem(self) -> str | None:
        if (problem := self._address_problem("ssl_listener", (SSL,))) is not None:
            return problem
        if not (self.ssl_listener or self._sasl_has_tls):
            given = next((name for name in _FILES_OF_TLS if getattr(self, name)), None)
            if given is not None:
                return f"PENSTOCK_{given.upper()} needs a listener with TLS: PENSTOCK_SSL_LISTENER, or SASL_SSL"
            return self._client_auth_problem()
        for setting, check in (
            ("ssl_keystore_type", check_store_type),
            ("ssl_truststore_type", check_store_type),
            ("ssl_enabled_protocols", check_tls_versions),
        ):
            try:
                check(getattr(self, setting))
            except Unserved as error:
                return f"PENSTOCK_{setting.upper()}: {error}"
        if not self.ssl_keystore_location:
            return "PENSTOCK_SSL_KEYSTORE_LOCATION is empty; a listener with TLS needs the PEM file of a key and its certificate"
        return self._client_auth_problem()

    def _client_auth_problem(self) -> str | None:
        """A setting that somebody relies on must not be without effect."""
        asked = False
        for setting, is_there, needed in (
            ("ssl_client_auth", bool(self.ssl_listener), "PENSTOCK_SSL_LISTENER"),
            ("sasl_ssl_client_auth", self._sasl_has_tls, "SASL_SSL in PENSTOCK_SASL_LISTENER"),
        ):
            given = getattr(self, setting)
            if given not in CLIENT_AUTH:
                return f"PENSTOCK_{setting.upper()} is {given}; expected {', '.join(CLIENT_AUTH)}"
            if given != CLIENT_AUTH[0] and not is_there:
                return f"PENSTOCK_{setting.upper()} needs {needed}"
            if given != CLIENT_AUTH[0] and not self.ssl_truststore_location:
                return f"PENSTOCK_{setting.upper()} is {given}, and PENSTOCK_SSL_TRUSTSTORE_LOCATION names nobody to trust"
            asked |= given != CLIENT_AUTH[0]
        if self.ssl_truststore_location and not asked:
            return "PENSTOCK_SSL_TRUSTSTORE_LOCATION needs PENSTOCK_SSL_CLIENT_AUTH or PENSTOCK_SASL_SSL_CLIENT_AUTH"
        if self.ssl_principal_mapping_rules == DEFAULT_MAPPING:
            return None
        if self.ssl_client_auth == CLIENT_AUTH[0]:
            return "PENSTOCK_SSL_PRINCIPAL_MAPPING_RULES needs PENSTOCK_SSL_CLIENT_AUTH"
        from services.gateway.core.principal_mapping import PrincipalMapping, WrongRule  # RE2 is dear to import

        try:
            PrincipalMapping(self.ssl_principal_mapping_rules)
        except WrongRule as error:
            return f"PENSTOCK_SSL_PRINCIPAL_MAPPING_RULES: {error}"
        return None

    def _time_problem(self) -> str | None:
        for name in ("tls_handshake_s_max", "authentication_s_max"):
            if not 0 < getattr(self, name) < inf:
                return f"PENSTOCK_{name.upper()} is {getattr(self, name)}; expected a number of seconds above 0"
        if self.failed_authentication_delay_ms < 0:
            return f"PENSTOCK_FAILED_AUTHENTICATION_DELAY_MS is {self.failed_authentication_delay_ms}; expected 0 or more"
        return None

    @property
    def first_listener(self) -> str:
        """The name of the listener for which `listener.name.…` configs of connections hold."""
        if self.plaintext_listener:
            return self.listener_name
        return (self.ssl_address if self.ssl_listener else self.sasl_address).protocol

    @property
    def listens(self) -> dict[str, Address]:
        """Where clients are listened for, by setting. Raises Unserved."""
        listens = {}
        if self.plaintext_listener:
            listens["PENSTOCK_PORT_BASE"] = Address(PLAINTEXT, without_brackets(self.listen_host), self.port_base)
        if self.ssl_listener:
            listens["PENSTOCK_SSL_LISTENER"] = self.ssl_address
        if self.sasl_listener:
            listens["PENSTOCK_SASL_LISTENER"] = self.sasl_address
        return listens

    def _authorizer_problem(self) -> str | None:
        return authorizer_problem(self.authorizer, self.super_users, allow_if_no_acl=self.allow_everyone_if_no_acl_found)

    def problem(self) -> str | None:
        if not 1 <= self.port_base < PORT_MAX:
            return f"PENSTOCK_PORT_BASE is {self.port_base}; expected 1 to {PORT_MAX - 1}"
        if self.socket_send_buffer_bytes < 1 and self.socket_send_buffer_bytes != KERNELS_CHOICE:
            return f"PENSTOCK_SOCKET_SEND_BUFFER_BYTES is {self.socket_send_buffer_bytes}; expected -1, or 1 or more"
        for name, value in self.connection_configs.items():
            try:
                BROKER_CONFIGS[name].validate(value)
            except ConfigError as error:
                return f"PENSTOCK_{_CONNECTION_SETTINGS[name].upper()}: {error}"
        if (problem := self._time_problem() or self._sasl_problem() or self._tls_problem()) is not None:
            return problem
        if not (self.plaintext_listener or self.ssl_listener or self.sasl_listener):
            return "PENSTOCK_PLAINTEXT_LISTENER=false needs PENSTOCK_SASL_LISTENER or PENSTOCK_SSL_LISTENER"
        if (problem := self._authorizer_problem() or port_clash(self.listens)) is not None:
            return problem
        return (
            host_problem("LISTEN_HOST", self.listen_host)
            or host_problem("ADVERTISED_HOST", self.advertised_host)
            or ServiceConfig.problem(self)
        )
