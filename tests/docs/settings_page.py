"""Writes docs/settings.md from the services' config.py: each field with its type, its default and what its docstring says.

`python -m tests.docs.settings_page [--check]`
"""

import ast
import dataclasses
import itertools
import sys
import types
import typing
from collections.abc import Iterable, Iterator
from importlib import import_module
from inspect import getsource
from pathlib import Path
from textwrap import dedent
from typing import Any

from services.gateway.protocol_docs.protocol_page import write_page
from services.local.cluster_plan import plan_cluster
from services.local.cluster_shape import NODE_ROLES, Shape
from services.local.run_directory import RunDirectory
from services.node.config import NODE

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "settings.md"

_TOP = """# Settings

Made by `python -m tests.docs.settings_page` from the `config.py` of each service; do not edit.

Each service reads environment variables and the TOML file that `PENSTOCK_CONFIG` names. In the file a setting is called as in
the second column. The environment wins. Lists are comma separated in the environment. A service that lacks a setting, or
cannot read one, says so in one line and ends. It warns of a `PENSTOCK_…` variable that no service knows. All of them are read
at the start; Kafka's broker and topic configs, which `kafka-configs` changes while all runs, are another matter:
[use/configs.md](use/configs.md).

## Under `make up`

`make up` sets those marked with * itself. Every other variable of its environment reaches each process that this very `make up`
starts, and no process that runs already. `make up` remembers none of them but `PENSTOCK_LOG_DIRS`, `PENSTOCK_RACK`,
`PENSTOCK_LISTEN_HOST`, `PENSTOCK_ADVERTISED_HOST`, and what protects gateways' listeners: `PENSTOCK_SASL_…`, `PENSTOCK_SSL_…`,
the authorizer's settings, and the times of sessions, handshakes and authentication. A process that was started with these keeps
them at each later `make up`, until it is given others, or the cluster is wiped (`.run/places.json`). Further gateways have the
listeners of the first one, each a hundred ports further on, as its first listener. `make wipe` removes the data in RUN. Log
directories elsewhere keep their data, and it names them. They are that cluster's, and another one does not start with them:
empty them, or choose others.

Give a setting that only one process can have, such as `PENSTOCK_LOG_DIRS` and `PENSTOCK_RPC_TCP`, to a `make up` that starts just
that one. So racks, and a node with two log directories, are made one after the other:

```
PENSTOCK_RACK=a make up STORAGE=1 PORT=9092
PENSTOCK_RACK=b make up STORAGE=2
PENSTOCK_RACK=c PENSTOCK_LOG_DIRS=/disk1/penstock,/disk2/penstock make up STORAGE=3
```

`make up` warns of variables that it sets itself, and ignores yours; of those that no service knows; and of those that reach no
process, since all that would read them run already.

## Clients on other hosts

`make up` starts gateways for clients on this machine only. To let other machines connect, give it the name or address by which
they reach this one:

```
make up HOST=192.168.1.5
```

Clients use what it prints: `bootstrap.servers=192.168.1.5:9092`. They also need the ports 9093 to 9095, one for each storage
node. Later `make up`s keep the address; `HOST=127.0.0.1` takes it back, after `make down`. HOST stands for
`PENSTOCK_LISTEN_HOST=0.0.0.0` and `PENSTOCK_ADVERTISED_HOST`. Etcd, processes and admin ports stay on loopback. For a cluster
that outlives a machine: [operate/three-hosts.md](operate/three-hosts.md). Whoever reaches these ports may do everything. With
`SECURITY=on` beside HOST, a new cluster asks for TLS and a user ([security.md](security.md#one-word)).

IPv6 works alike: `HOST=fd00::5` stands for `PENSTOCK_LISTEN_HOST=::`, which serves IPv4 too. A host with a port has brackets
everywhere, as in `[fd00::5]:9092`; a host alone has none.

Programs on this machine are sent to that address, too. `make up` warns if they cannot connect to it, as behind a NAT. Then start
one more gateway beside those of `make up`, with a listener of its own:

```
PENSTOCK_NODE_ID=10 PENSTOCK_ETCD=127.0.0.1:9142 PENSTOCK_DATA_DIR=.run/data/gateway-10 \\
PENSTOCK_PORT_BASE=9992 PENSTOCK_LISTEN_HOST=0.0.0.0 PENSTOCK_ADVERTISED_HOST=kafka.example.net \\
PENSTOCK_LISTENER_NAME=EXTERNAL .venv/bin/python -m services.gateway
```

- `PENSTOCK_ETCD` is `PORT` + 50 of `make up`. Node ids from 10 and ports from `PORT` + 900 are not used by `make up`.
- `PENSTOCK_LISTENER_NAME` is another name than `PLAINTEXT`. Metadata names only gateways of the listener that a client uses. With
  one name for both, other machines would be sent to 127.0.0.1.
- Ctrl-C or SIGTERM ends this gateway. `make down` and `make status` do not know it.
- Without an authorizer, whoever reaches the port can read and write everything ([security](security.md)).
"""


def configs() -> dict[str, type[Any]]:
    """By service: the dataclass that its `config.py` holds."""
    found = {}
    for path in sorted((ROOT / "services").glob("*/config.py")):
        module = import_module(f"services.{path.parent.name}.config")
        found[path.parent.name] = next(
            each for each in vars(module).values() if dataclasses.is_dataclass(each) and each.__module__ == module.__name__
        )
    return found


def docs_of(config: type[Any]) -> dict[str, str]:
    """The text below each field."""
    found = {}
    for node, below in itertools.chain.from_iterable(map(_members, reversed(config.__mro__[:-1]))):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            match below:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    found[node.target.id] = " ".join(text.split())
    return found


def _members(config: type[Any]) -> Iterator[tuple[ast.stmt, ast.stmt]]:
    [body] = (node.body for node in ast.parse(dedent(getsource(config))).body if isinstance(node, ast.ClassDef))
    return itertools.pairwise(body)


def page() -> str:
    set_by_launcher = launched()
    rows = {service: list(_rows(config, set_by_launcher.get(service, frozenset()))) for service, config in configs().items()}
    of_services = [each for service, each in rows.items() if service != NODE]
    of_all = [row for row in of_services[0] if all(row in each for each in of_services)]
    sections = {"every service": of_all} | {service: [row for row in each if row not in of_all] for service, each in rows.items()}
    return _TOP + "".join(line + "\n" for title, each in sections.items() for line in _section(title, each))


def launched() -> dict[str, frozenset[str]]:
    """The variables that `make up` sets, by service."""
    shapes = (Shape(roles=NODE_ROLES), Shape())
    plans = [
        plan for shape in shapes for plan in plan_cluster(shape, RunDirectory(".run"), python=Path("python"), etcd=Path("etcd"))
    ]
    return {plan.role: frozenset(plan.environment) for plan in plans}


def _section(title: str, rows: Iterable[str]) -> Iterator[str]:
    yield f"\n## {title.capitalize().replace('_', ' ')}\n"
    yield "| variable | in the file | type | default | |"
    yield "|---|---|---|---|---|"
    yield from rows


def _rows(config: type[Any], set_by_launcher: frozenset[str]) -> Iterator[str]:
    hints, docs = typing.get_type_hints(config), docs_of(config)
    for field in dataclasses.fields(config):
        variable = f"PENSTOCK_{field.name.upper()}"
        mark = "*" if variable in set_by_launcher else ""
        columns = (f"`{variable}`{mark}", f"`{field.name}`", _type(hints[field.name]), _default(field), docs.get(field.name, ""))
        yield f"| {' | '.join(columns)} |".replace("  |", " |")


def _type(hint: Any) -> str:
    if typing.get_origin(hint) is tuple:
        return f"list of {_type(typing.get_args(hint)[0])}s"
    if typing.get_origin(hint) is types.UnionType:
        return _type(next(each for each in typing.get_args(hint) if each is not types.NoneType))
    return {int: "whole number", float: "number", str: "string", bool: "true or false"}[hint]


def _default(field: "dataclasses.Field[Any]") -> str:
    match field.default:
        case dataclasses.MISSING:
            return "must be set"
        case "" | () | None:
            return "empty"
        case str(text):
            return f"`{text}`"
        case tuple(items):
            return f"`{','.join(map(str, items))}`"
        case bool(is_on):
            return str(is_on).lower()
        case number:
            return f"{number:,}"


if __name__ == "__main__":
    sys.exit(write_page(PAGE, page, "tests.docs.settings_page"))
