"""The command line of `penstock dev`: its options, and what each may be."""

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from libs.runtime.service_config import WILDCARDS
from libs.telemetry.logs import LEVELS, LogSettings
from services.dev.settings import HOST, NODE_ID, PORT, Settings, WrongSetting, broker_configs_of

if TYPE_CHECKING:
    from libs.cluster.scram_credentials import ScramCredential

PORTS = range(65_536)
ADD_SCRAM: Final = "a user of a new cluster, as kafka-storage takes it: SCRAM-SHA-256=[name=USER,password=PASSWORD]; repeatable"


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="penstock dev", description="Runs a whole cluster in one process, for development.")
    add = parser.add_argument
    add("--port", default=str(PORT), help=f"bootstrap port; the broker has the next one (default {PORT}; 0: free ones)")
    add("--host", default=HOST, help=f"the address to listen at (default {HOST})")
    add("--advertised-host", help="the host that clients are told (default: that of --host)")
    add("--data", help="a folder for the data, which then stays (default: a temporary one)")
    add("--admin-port", help="serve /readyz, /health, /metrics and /debug there (default: nowhere; 0: a free port)")
    add("--broker-config", action="append", default=[], metavar="NAME=VALUE", help="a broker config of Kafka's, repeatable")
    add(
        "--security",
        action="store_true",
        help="clients need TLS and a user, and ACLs decide: makes a certificate and the user admin",
    )
    add(
        "--super-user",
        action="append",
        default=[],
        metavar="PRINCIPAL",
        help="may do everything, as User:ops, beside admin; repeatable",
    )
    add("--sasl-listener", help="a second listener, where clients authenticate, such as SASL_PLAINTEXT://127.0.0.1:9192")
    add("--sasl-enabled-mechanisms", help="of that listener, with commas between them (default SCRAM-SHA-256,SCRAM-SHA-512)")
    add("--sasl-plain-without-tls", action="store_true", help="PLAIN may be one of them, which shows passwords on the network")
    add("--add-scram", action="append", default=[], metavar="ENTRY", help=ADD_SCRAM)
    add("--add-scram-file", metavar="FILE", help="a file with a line for each, so that `ps` shows no password")
    add("--log-level", default="warning", help=f"{', '.join(LEVELS)} (default warning)")
    add("--quiet", action="store_true", help="log errors only")
    return parser.parse_args(arguments)


def settings_of(given: argparse.Namespace) -> Settings:
    """Raises WrongSetting."""
    if given.data is not None and not given.data.strip():
        raise WrongSetting("--data is empty; expected a folder")
    for option, host in (("--host", given.host), ("--advertised-host", given.advertised_host)):
        if host is not None and not host.strip():
            raise WrongSetting(f"{option} is empty; expected the name or address of a host")
    if given.advertised_host is None and given.host in WILDCARDS:
        raise WrongSetting(f"--host is {given.host}, and no client can connect to that; expected --advertised-host as well")
    sasl, sasl_address = _sasl_of(given)
    if given.security and sasl:
        raise WrongSetting("--security has a listener of its own in the place of the first one; leave out --sasl-listener")
    if given.super_user and not given.security:
        raise WrongSetting("--super-user is for --security, without which everybody may do everything")
    if wrong := next((each for each in given.super_user if not re.fullmatch(r"User:[^;]+", each)), None):
        raise WrongSetting(f"--super-user is {wrong!r}; expected User:NAME")
    return Settings(
        port=_port("--port", given.port, highest=PORTS[-2]),
        host=given.host,
        advertised_host=given.advertised_host or given.host,
        data=given.data or "",
        admin_port=None if given.admin_port is None else _port("--admin-port", given.admin_port, highest=PORTS[-1]),
        broker_configs=broker_configs_of(given.broker_config),
        security=given.security,
        super_users=tuple(given.super_user),
        sasl=sasl,
        sasl_address=sasl_address,
        first_users=_first_users_of(given.add_scram, given.add_scram_file),
    )


def _sasl_of(given: argparse.Namespace) -> tuple[Mapping[str, object], tuple[str, int] | None]:
    """The gateway's settings, and the address that they listen at. Raises WrongSetting."""
    if given.sasl_listener is None:
        if given.sasl_enabled_mechanisms is not None or given.sasl_plain_without_tls:
            raise WrongSetting("--sasl-enabled-mechanisms and --sasl-plain-without-tls need --sasl-listener")
        return {}, None
    if given.sasl_listener.startswith("SASL_SSL://"):
        raise WrongSetting("--sasl-listener: SASL_SSL is not served here: only SASL_PLAINTEXT; --security serves SASL_SSL")
    from services.gateway.config import GatewayConfig  # dear to import

    sasl: dict[str, object] = {"sasl_listener": given.sasl_listener, "sasl_plain_without_tls": given.sasl_plain_without_tls}
    if given.sasl_enabled_mechanisms is not None:
        sasl["sasl_enabled_mechanisms"] = tuple([name.strip() for name in given.sasl_enabled_mechanisms.split(",")])
    config = GatewayConfig(node_id=NODE_ID, etcd=("none:1",), data_dir="none", rpc_unix="none", port_base=PORT, **sasl)  # type: ignore[arg-type]
    if problem := config.problem():
        raise WrongSetting(re.sub(r"PENSTOCK_(SASL_\w+)", lambda setting: f"--{setting[1].lower().replace('_', '-')}", problem))
    return sasl, (config.sasl_address.host, config.sasl_address.port_base)


def _first_users_of(entries: Sequence[str], file: str | None) -> Mapping[tuple[str, str], "ScramCredential"]:
    """Raises WrongSetting."""
    if not entries and file is None:
        return {}
    from services.controller.administration.first_users import new_salt, read_users  # dear to import
    from services.controller.core.administration.first_users import WrongUser, first_users

    try:
        of_file = read_users(file) if file is not None else {}
        return {**of_file, **first_users([("--add-scram", entry) for entry in entries], new_salt)}
    except WrongUser as error:
        raise WrongSetting(f"--add-scram-file: {error}" if str(error).startswith(f"{file}") else str(error)) from None


def _port(option: str, text: str, highest: int) -> int:
    if not text.isdecimal() or int(text) > highest:
        raise WrongSetting(f"{option} is {text!r}; expected 0 to {highest}")
    return int(text)


def log_settings_of(given: argparse.Namespace) -> LogSettings:
    """Raises WrongSetting."""
    if given.log_level not in LEVELS:
        raise WrongSetting(f"--log-level is {given.log_level!r}; expected {', '.join(LEVELS[:-1])} or {LEVELS[-1]}")
    return LogSettings("error" if given.quiet else given.log_level)
