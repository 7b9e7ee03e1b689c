"""Writes what the Helm chart has from code and the other way round: `charts/penstock/files/settings.yaml`, by which the chart
refuses unknown settings, from the services' `config.py`; and the table of values in `docs/operate/kubernetes.md`, from the
comments of `charts/penstock/values.yaml`.

`python -m tests.docs.chart_page [--check]`
"""

import dataclasses
import re
import sys
import types
import typing
from collections.abc import Iterator
from typing import Any

from libs.runtime.tracing.trace_settings import EXPORTERS
from libs.telemetry.logs import JSON, LEVELS, TEXT
from services.gateway.protocol_docs.protocol_page import write_page
from services.node.config import NODE
from tests.docs.settings_page import ROOT
from tests.docs.settings_page import configs as all_configs

CHART = ROOT / "charts" / "penstock"
SETTINGS = CHART / "files" / "settings.yaml"
VALUES = CHART / "values.yaml"
PAGE = ROOT / "docs" / "operate" / "kubernetes.md"

SET_BY_CHART = frozenset(
    {
        *("node_id", "etcd", "data_dir", "rpc_unix", "rpc_tcp", "rpc_advertised_host", "host_id", "admin_host", "admin_port"),
        "admin_token_file",
        *("log_file", "log_file_bytes_max", "log_former_files_max", "peers", "log_dirs", "rack"),
        *("ssl_listener", "ssl_advertised_listener", "ssl_keystore_location", "ssl_keystore_type", "ssl_key_password_file"),
        *("ssl_key_location", "ssl_truststore_location", "ssl_truststore_type", "ssl_client_auth"),
        *("sasl_ssl_client_auth", "ssl_principal_mapping_rules"),
        *("port_base", "listen_host", "advertised_host", "advertised_port_base", "listener_name", "plaintext_listener"),
        *("sasl_listener", "sasl_advertised_listener", "sasl_enabled_mechanisms", "sasl_plain_without_tls"),
        *("sasl_oauthbearer_without_tls", "shortcuts", "add_scram_file"),
        *("authorizer", "super_users", "allow_everyone_if_no_acl_found"),
        *("rpc_tls_certificate", "rpc_tls_key", "rpc_tls_ca"),
        *("etcd_ca_file", "etcd_cert_file", "etcd_key_file"),
    }
)
"""The chart gives these by the environment, or leaves them alone: pods log to stderr and have one volume, keys come in Secrets,
and shortcuts are switched off for a diagnosis only, by the environment."""

CHOICES = {
    "log_level": LEVELS,
    "log_format": (TEXT, JSON),
    "default_durability": ("synced", "replicated"),
    "trace_exporter": EXPORTERS,
}
"""Of each setting that is a text, and not any. `tests/deploy/chart/test_refusals.py` holds them to what the services take."""
TEXTS = frozenset(
    {
        *("trace_endpoint", "sasl_oauthbearer_jwks_endpoint_url", "sasl_oauthbearer_jwks_ca_file"),
        *("sasl_oauthbearer_expected_issuer", "sasl_oauthbearer_sub_claim_name"),
    }
)

_TABLE = re.compile(r"(<!-- values -->\n).*?(<!-- /values -->\n)", re.DOTALL)
_LINE = re.compile(r"(?P<indent> *)(?P<key>[A-Za-z]\w*):(?: (?P<value>.*))?$")
_COMMENT = re.compile(r" *# -- (?P<text>.*)$")


def configs() -> dict[str, type[Any]]:
    """Of the services that the chart runs: it has no nodes yet."""
    return {service: config for service, config in all_configs().items() if service != NODE}


def settings() -> str:
    lines = ["# Made by `python -m tests.docs.chart_page` from the config.py of each service: the settings that values may give."]
    for service, config in configs().items():
        lines.append(f"{service}:")
        hints = typing.get_type_hints(config)
        lines += [f"  {name}: {_type(name, hints[name])}" for name in sorted(_names(config) - SET_BY_CHART)]
    return "\n".join(lines) + "\n"


def page() -> str:
    return _TABLE.sub(lambda found: f"{found[1]}\n{table()}\n{found[2]}", PAGE.read_text(encoding="utf-8"))


def table() -> str:
    rows = [f"| `{key}` | {f'`{value}`' if value else ''} | {text} |" for key, value, text in values()]
    return "\n".join(["| value | default | |", "|---|---|---|", *rows])


def values() -> Iterator[tuple[str, str, str]]:
    """Each value that has a comment: its path, its default as values.yaml has it, the comment."""
    path: list[str] = []
    text = ""
    for line in VALUES.read_text(encoding="utf-8").splitlines():
        if comment := _COMMENT.match(line):
            text = comment["text"]
        elif found := _LINE.match(line):
            path[len(found["indent"]) // 2 :] = [found["key"]]
            if text:
                yield ".".join(path), found["value"] or "", text
            text = ""


def _names(config: type[Any]) -> set[str]:
    return {field.name for field in dataclasses.fields(config)}


def _type(name: str, hint: Any) -> str:
    if typing.get_origin(hint) is tuple:
        return "list"
    if typing.get_origin(hint) is types.UnionType:
        return _type(name, next(each for each in typing.get_args(hint) if each is not types.NoneType))
    if name in TEXTS:
        return "text"
    return {int: "integer", float: "number"}[hint] if hint is not str else f"[{', '.join(CHOICES[name])}]"


if __name__ == "__main__":
    sys.exit(write_page(SETTINGS, settings, "tests.docs.chart_page") or write_page(PAGE, page, "tests.docs.chart_page"))
