"""The command line of `penstock dev`: its options, and what each may be."""

import argparse
from collections.abc import Sequence

from libs.runtime.service_config import WILDCARDS
from libs.telemetry.logs import LEVELS, LogSettings
from services.dev.settings import HOST, PORT, Settings, WrongSetting, broker_configs_of

PORTS = range(65_536)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="penstock dev", description="Runs a whole cluster in one process, for development.")
    add = parser.add_argument
    add("--port", default=str(PORT), help=f"bootstrap port; the broker has the next one (default {PORT}; 0: free ones)")
    add("--host", default=HOST, help=f"the address to listen at (default {HOST})")
    add("--advertised-host", help="the host that clients are told (default: that of --host)")
    add("--data", help="a folder for the data, which then stays (default: a temporary one)")
    add("--admin-port", help="serve /readyz, /health, /metrics and /debug there (default: nowhere; 0: a free port)")
    add("--broker-config", action="append", default=[], metavar="NAME=VALUE", help="a broker config of Kafka's, repeatable")
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
    return Settings(
        port=_port("--port", given.port, highest=PORTS[-2]),
        host=given.host,
        advertised_host=given.advertised_host or given.host,
        data=given.data or "",
        admin_port=None if given.admin_port is None else _port("--admin-port", given.admin_port, highest=PORTS[-1]),
        broker_configs=broker_configs_of(given.broker_config),
    )


def _port(option: str, text: str, highest: int) -> int:
    if not text.isdecimal() or int(text) > highest:
        raise WrongSetting(f"{option} is {text!r}; expected 0 to {highest}")
    return int(text)


def log_settings_of(given: argparse.Namespace) -> LogSettings:
    """Raises WrongSetting."""
    if given.log_level not in LEVELS:
        raise WrongSetting(f"--log-level is {given.log_level!r}; expected {', '.join(LEVELS[:-1])} or {LEVELS[-1]}")
    return LogSettings("error" if given.quiet else given.log_level)
