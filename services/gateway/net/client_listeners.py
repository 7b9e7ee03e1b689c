"""The listeners of a gateway: without authentication, with TLS (SSL), with SASL (SASL_PLAINTEXT or SASL_SSL)."""

import contextlib
import socket
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from libs.clock import Clock
from libs.cluster.records import Listener
from libs.host_port import without_brackets
from libs.pem_files import Unusable
from libs.rpc.transport.tls_server import ClientAuth, TlsServer, TlsSettings
from libs.rpc.transport.transport import Transport
from libs.runtime.lifecycle import CannotRun
from services.gateway.config import GatewayConfig
from services.gateway.core.authentication import ANONYMOUS_NAME
from services.gateway.core.distinguished_name import subject_name
from services.gateway.core.listener_settings import CLIENT_AUTH, DEFAULT_MAPPING, PLAINTEXT, SSL, WITH_TLS, Address, port_clash
from services.gateway.gateway_meters import GatewayMeters
from services.gateway.net.certificates import Certificates
from services.gateway.net.client_listener import ClientListener
from services.gateway.net.connections import Connections
from services.gateway.net.listeners import Listeners
from services.gateway.peers.scram_credentials import CredentialFollower
from services.gateway.requests.authentication import SaslListener


def known_name(mapped: str) -> str:
    """The name itself. Raises ValueError for the one of clients that have shown no certificate."""
    if mapped == ANONYMOUS_NAME:
        raise ValueError("PENSTOCK_SSL_PRINCIPAL_MAPPING_RULES makes the client ANONYMOUS, which only clients without a name are")
    return mapped


class ClientListeners:
    """Call `start`, then `close`, and `closed` once the connections have ended. The constructor raises CannotRun."""

    def __init__(
        self,
        config: GatewayConfig,
        transport: Transport,
        connections: Connections,
        credentials: CredentialFollower,
        meters: GatewayMeters,
        clock: Clock,
        broker_ids: frozenset[int] | None = None,
    ) -> None:
        """`broker_ids`: those whose ports are opened. None: all, and the bootstrap ports."""
        self._config = config
        self._own_ids = broker_ids
        self.inherit: Callable[[], Awaitable[Mapping[str, socket.socket]]] | None = None
        """Asks, when the ports are to be opened, for sockets of its own broker's ports that others kept, by the names that their
        listeners had."""
        self.opened: Callable[[], None] | None = None
        """Called once the ports are open. The gateway registers after that, which may take as long as the metadata store does."""
        self._transport = transport
        self._connections = connections
        self._credentials = credentials
        self._meters = meters
        self.certificates: Certificates | None = None
        """None: no listener has TLS."""
        self._sasl: SaslListener | None = None
        own: list[Listener] = []
        self._all: list[Listeners] = []
        if config.plaintext_listener:
            listens = Address(PLAINTEXT, config.listen_host, config.port_base)
            self._all.append(self._listeners(listens, ClientListener(config.listener_name)))
            port_base = config.advertised_port_base or config.port_base
            own.append(Listener(config.listener_name, without_brackets(config.advertised_host), port_base, PLAINTEXT))
        if config.ssl_listener:
            self._all.append(self._listeners(config.ssl_address, self._ssl_listener()))
            own.append(_record(config.ssl_advertised_address))
        if config.sasl_listener:
            self._sasl = SaslListener(
                config.sasl_enabled_mechanisms,
                credentials,
                meters,
                denial_delay_s=config.failed_authentication_delay_ms / 1000,
                clock=clock,
                session_s_max=config.reauthentication_s_max,
                oauthbearer=config.oauthbearer,
            )
            listener = ClientListener(config.sasl_address.protocol, self._sasl)
            self._all.append(self._listeners(config.sasl_address, listener))
            own.append(_record(config.sasl_advertised_address))
        self.own = tuple(own)
        """The addresses for clients, as other gateways announce them."""

    def named(self, name: str) -> Listener:
        return next(listener for listener in self.own if listener.name == name)

    @property
    def broker_ids(self) -> set[int]:
        """Those whose ports are open."""
        return self._all[0].broker_ids

    async def start(self, broker_ids: set[int]) -> None:
        """Opens all ports. Raises OSError when a bootstrap port or an own one is taken, and CannotRun when two listeners need one
        port."""
        if (clash := port_clash(self._config.listens, broker_ids)) is not None:
            raise CannotRun("listeners need one port", reason=clash)
        if self.certificates is not None:
            self.certificates.start()
        if self._sasl is not None:
            self._sasl.start()
            await self._credentials.start()
        inherited = await self._inherited()
        for listeners in self._all:
            await listeners.start(broker_ids, inherited.get(listeners))
            listeners.follow(broker_ids)
        if self.opened is not None:
            self.opened()

    async def _inherited(self) -> dict[Listeners, socket.socket]:
        """The sockets of its own broker's ports that others kept, whatever their listeners were called. One at a former address
        listens no more, in any process: it might be in the way of a port."""
        inherited: dict[Listeners, socket.socket] = {}
        for kept in (await self.inherit()).values() if self.inherit is not None else ():
            listeners = [each for each in self._all if await each.is_at_own_port(kept)]
            if listeners and listeners[0] not in inherited:
                inherited[listeners[0]] = kept
                continue
            if not listeners:
                with contextlib.suppress(OSError):
                    kept.shutdown(socket.SHUT_RDWR)
            kept.close()
        return inherited

    def follow(self, broker_ids: set[int]) -> None:
        """Opens the ports of new broker ids, and closes those of broker ids that were unregistered."""
        for listeners in self._all:
            listeners.follow(broker_ids)

    def sockets(self, broker_id: int) -> dict[str, socket.socket]:
        """The listening sockets of that broker's ports, by the listener's name."""
        sockets = {own.name: listeners.listening(broker_id) for own, listeners in zip(self.own, self._all, strict=True)}
        return {name: listening for name, listening in sockets.items() if listening is not None}

    def take(self, broker_id: int, sockets: Mapping[str, socket.socket]) -> None:
        """Accepts from the sockets of that broker's ports that another process opened, by its names of the listeners. Owns them
        from now on."""
        for name, listening in sockets.items():
            if (listeners := self._taker(broker_id, name, listening)) is not None:
                listeners.take(broker_id, listening)
            else:
                listening.close()

    def _taker(self, broker_id: int, name: str, listening: socket.socket) -> Listeners | None:
        """The port says more than the name: the process that opened the socket may have other names. Two listeners may have one
        port at different hosts. None: which of them it is cannot be told, and clients of one must not come to the other."""
        host, port = listening.getsockname()[:2]
        by_name = {own.name: listeners for own, listeners in zip(self.own, self._all, strict=True)}
        at_port = {each: listeners for each, listeners in by_name.items() if listeners.port_of(broker_id) == port}
        if name in at_port:
            return at_port[name]
        if len(at_port) > 1:
            return next((listeners for listeners in at_port.values() if host in listeners.hosts), None)
        return next(iter(at_port.values()), None) or by_name.get(name)

    def give_up(self, broker_id: int) -> None:
        """Accepts no more from that broker's ports. Connections stay."""
        for listeners in self._all:
            listeners.give_up(broker_id)

    def close(self) -> None:
        """Takes no more connections."""
        for listeners in self._all:
            listeners.close()

    async def closed(self) -> None:
        if self.certificates is not None:
            self.certificates.close()
        if self._sasl is not None:
            self._sasl.close()
            await self._credentials.close()

    def _ssl_listener(self) -> ClientListener:
        config = self._config
        user_of: Callable[[bytes], str] | None = None
        if config.ssl_client_auth != CLIENT_AUTH[0]:
            user_of = subject_name
            if config.ssl_principal_mapping_rules != DEFAULT_MAPPING:
                from services.gateway.core.principal_mapping import PrincipalMapping  # RE2 is dear to import

                mapping = PrincipalMapping(config.ssl_principal_mapping_rules)
                user_of = lambda certificate: known_name(mapping.name_of(subject_name(certificate)))  # noqa: E731
        return ClientListener(config.ssl_address.protocol, user_of=user_of)

    def _listeners(self, address: Address, listener: ClientListener) -> Listeners:
        return Listeners(
            self._transport,
            address.host,
            address.port_base,
            partial(self._connections.accept, listener=listener),
            self._connections.accept_wait_s,
            send_buffer_bytes=self._config.socket_send_buffer_bytes,
            tls=self._tls(address.protocol) if address.protocol in WITH_TLS else None,
            own=self._own_ids,
        )

    def _tls(self, protocol: str) -> TlsServer:
        config = self._config
        client_auth = config.ssl_client_auth if protocol == SSL else config.sasl_ssl_client_auth
        settings = TlsSettings(
            config.ssl_keystore_location,
            config.ssl_key_password_file,
            config.ssl_truststore_location,
            ClientAuth[client_auth.upper()],
            config.ssl_enabled_protocols,
            config.ssl_key_location,
        )
        self.certificates = self.certificates or Certificates(self._meters, config.tls_handshake_s_max)
        try:
            return self.certificates.serve(settings)
        except Unusable as error:
            raise CannotRun(f"TLS cannot be served: {error}") from error


def _record(address: Address) -> Listener:
    return Listener(address.protocol, address.host, address.port_base, address.protocol)
