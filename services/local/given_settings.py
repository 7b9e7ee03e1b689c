"""The settings in the environment of `make up`: those that will not have the effect that they were given for."""

import difflib
import functools
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from services.local.client_listeners import PREFIXES
from services.local.cluster import Cluster
from services.local.cluster_plan import sets_etcd
from services.local.cluster_shape import HOST
from services.local.errors import LauncherError
from services.local.run_directory import ADVERTISED_HOST, LISTEN_HOST

OF_TESTS = ("PENSTOCK_REQUIRE_ALL", "PENSTOCK_GROUPS_AGAINST", "PENSTOCK_TEST_ETCD_BIN", "PENSTOCK_TEST_ETCD_OUTAGE_S")


def warn_of_settings(cluster: Cluster, root: Path, say: Callable[[str], None]) -> None:
    """Names the variables of the environment that will not have the effect that they were given for."""
    given = {name: value for name, value in os.environ.items() if name.startswith("PENSTOCK_")}
    known = known_settings(root)
    for name in sorted(given.keys() - known):
        say(f"warning: there is no setting {name}{_instead(name, known)}")
    if of_etcd := sorted(filter(sets_etcd, os.environ)):
        say(f"warning: {', '.join(of_etcd)} does not reach etcd: `make up` sets all of its settings")
    if overridden := cluster.overridden(given):
        say(f"warning: `make up` sets {', '.join(overridden)} itself and ignores the environment's (docs/settings.md)")
    if late := cluster.too_late({name: given[name] for name in given.keys() & known}):
        say(f"warning: {', '.join(late)} reaches no process, since all of them run already: `make down` first")
    place = {**cluster.run.place_of("gateway-1", {}), **given}
    if place.get(LISTEN_HOST, HOST) != HOST and place.get(ADVERTISED_HOST, HOST) == HOST:
        say(f"warning: {LISTEN_HOST} without {ADVERTISED_HOST}: clients on other machines would be sent to {HOST}")


def refuse_unknown(given: Mapping[str, str], root: Path) -> None:
    """Raises LauncherError for settings of listeners and of the authorizer that do not exist. They would be remembered, and what
    they ask for would not be there."""
    known = known_settings(root)
    for name in sorted(name for name, value in given.items() if value and name.startswith(PREFIXES) and name not in known):
        raise LauncherError(f"leave {name} out: there is no setting {name}{_instead(name, known)}")


def _instead(name: str, known: Iterable[str]) -> str:
    alike = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {alike[0]}?" if alike else " (docs/settings.md)"


@functools.cache
def known_settings(root: Path) -> frozenset[str]:
    """The settings of all services, by the page that is made from them, and the variables of tests."""
    return frozenset([*re.findall(r"`(PENSTOCK_\w+)`", (root / "docs" / "settings.md").read_text(encoding="utf-8")), *OF_TESTS])
