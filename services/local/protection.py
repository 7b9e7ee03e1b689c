"""What protects a cluster from its clients: SECURITY=on, or settings of listeners and the authorizer. A mark in the data says
that it was protected: a cluster whose shape or places are lost must not serve everybody."""

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from services.local.client_listeners import AUTHENTICATED, AUTHORIZER, PLAINTEXT_LISTENER, PREFIXES
from services.local.cluster_shape import HOST, SECURED, UNSECURED, Shape
from services.local.errors import LauncherError
from services.local.host_names import with_port
from services.local.run_directory import ADVERTISED_HOST, LISTEN_HOST, RunDirectory, replace_file

SUPER_USERS: Final = AUTHORIZER[1]
FIRST_USER: Final = "User:admin"
KEYSTORE: Final = "PENSTOCK_SSL_KEYSTORE_LOCATION"
SET_BY_SECURITY: Final = (
    PLAINTEXT_LISTENER,
    AUTHENTICATED,
    "PENSTOCK_SASL_ADVERTISED_LISTENER",
    KEYSTORE,
    AUTHORIZER[0],
    AUTHORIZER[2],
)
"""The settings that SECURITY=on stands for. `PENSTOCK_SUPER_USERS` may name more than the first user."""


ADMIN_TOKEN: Final = "PENSTOCK_ADMIN_TOKEN_FILE"

NOT_BESIDE_SECURITY: Final = (
    "PENSTOCK_SSL_KEY_LOCATION",
    "PENSTOCK_SSL_KEY_PASSWORD_FILE",
    "PENSTOCK_SSL_KEYSTORE_TYPE",
    "PENSTOCK_ADD_SCRAM_FILE",
)
"""The settings that say how another keystore is to be read, or which other users a cluster begins with."""


def settings_of(shape: Shape, run: RunDirectory, gateway: int, place: Mapping[str, str]) -> dict[str, str]:
    """The settings of one gateway that SECURITY=on stands for. `place`: where it is. Clients reach it with TLS where they would
    have reached it without."""
    if shape.security != SECURED:
        return {}
    port = shape.port_base(gateway)
    listens, advertised = (place.get(variable) or HOST for variable in (LISTEN_HOST, ADVERTISED_HOST))
    addresses = [f"SASL_SSL://{with_port(host, port)}" for host in (listens, advertised)]
    values = ("false", *addresses, str(run.keystore), "StandardAuthorizer", "false")
    settings = dict(zip(SET_BY_SECURITY, values, strict=True))
    more = [user.strip() for user in place.get(SUPER_USERS, "").split(";")]
    return {**settings, SUPER_USERS: ";".join(dict.fromkeys([FIRST_USER, *filter(None, more)]))}


def admin_token(shape: Shape, run: RunDirectory) -> dict[str, str]:
    """The setting of each service whose admin port demands the token of SECURITY=on, once there is one."""
    file = run.security / "admin-token"
    return {ADMIN_TOKEN: str(file)} if shape.security == SECURED and file.is_file() else {}


def refuse_settings(given: Collection[str]) -> None:
    """Raises LauncherError for settings of the environment that SECURITY=on sets itself."""
    if own := ", ".join(name for name in (*SET_BY_SECURITY, *NOT_BESIDE_SECURITY) if name in given):
        raise LauncherError(f"SECURITY=on sets {own} itself: leave that out (a new cluster without SECURITY=on may have it)")


def refuse_lost_shape(run: RunDirectory, before: Shape | None, wanted: Shape) -> None:
    """Raises LauncherError where the cluster was made with SECURITY=on, its shape does not say so, and it is not given again."""
    if wanted.security == SECURED:
        return
    if before is not None and before.security != SECURED and _read(run).security == SECURED:
        raise LauncherError(
            f"the cluster in {run.path} was made with SECURITY=on, and an older version started it without: `make down`, then "
            "`make up SECURITY=on` (docs/operate/upgrading.md, Rolling back)"
        )
    if before is None and (_read(run).security == SECURED or run.keystore.exists()):
        raise LauncherError(
            f"the cluster in {run.path} was made with SECURITY=on, and what remembered its shape (cluster.json) is lost: "
            "give SECURITY=on and its other options again, or `make wipe` after that"
        )


def refuse_change(run: RunDirectory, before: Shape, wanted: Shape) -> None:
    """Raises LauncherError: a protected cluster stays so. One that is protected by settings keeps to them."""
    if before.security == wanted.security:
        return
    if before.security == SECURED:
        raise LauncherError(
            f"SECURITY={wanted.security} would let everybody do everything who reaches the cluster in {run.path}: it keeps "
            "SECURITY=on until `make wipe`"
        )
    of_its_own = (*SET_BY_SECURITY, *NOT_BESIDE_SECURITY)
    if own := ", ".join(name for name in _read(run).settings if name in of_its_own and not was_secured(run)):
        raise LauncherError(
            f"SECURITY=on has listeners and an authorizer of its own, and the cluster in {run.path} has {own}: end these by "
            "empty values at a `make up` first, or keep to settings (docs/security.md)"
        )


def was_secured(run: RunDirectory) -> bool:
    """Whether the cluster was started with SECURITY=on. The mark counts more than the shape, which a version without SECURITY
    writes anew."""
    return _read(run).security == SECURED


def begins_now(run: RunDirectory, shape: Shape) -> bool:
    """Whether SECURITY=on comes to a cluster that began without: it has no first user yet."""
    return shape.security == SECURED and has_begun(run) and not was_secured(run)


def has_begun(run: RunDirectory) -> bool:
    """Whether etcd was ever started: then the cluster may have been made, with its first users."""
    return run.data_directory("etcd").exists()


def first_users(run: RunDirectory, shape: Shape) -> Path | None:
    """The file with the first user of SECURITY=on. A metadata store that is written anew takes it, or nobody could come in."""
    file = run.security / "first-users"
    return file if (shape.security == SECURED or was_secured(run)) and file.is_file() else None


def remember(run: RunDirectory, shape: Shape, gateways: Mapping[str, Mapping[str, str]]) -> None:
    """Marks the data with the names of what protects the cluster, before anything starts. Raises LauncherError where the mark has
    names that no gateway's place has: the file of places is lost. `gateways`: the settings of each, also empty ones, by which
    somebody ended what they set."""
    marked = _read(run)
    known = {name: value for settings in gateways.values() for name, value in settings.items() if name.startswith(PREFIXES)}
    if lost := sorted(set(marked.settings) - known.keys()):
        raise LauncherError(
            f"the cluster in {run.path} was protected by {', '.join(lost)}, and what remembered the values (places.json) is "
            "lost: give them to `make up` again, or empty ones to go on without"
        )
    now = _Mark(shape.security, sorted(name for name, value in known.items() if value))
    if now != marked:
        replace_file(_file(run), asdict(now))


@dataclass(frozen=True)
class _Mark:
    """`settings`: the names of those that were set."""

    security: str = UNSECURED
    settings: list[str] = field(default_factory=list)


def _read(run: RunDirectory) -> _Mark:
    file = _file(run)
    try:
        return _Mark(**json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return _Mark()
    except (ValueError, TypeError) as reason:
        raise LauncherError(
            f"{file} is damaged ({reason}), which says how the cluster is protected; put a copy back, or remove it and give "
            "SECURITY=on or the settings of listeners and the authorizer anew"
        ) from reason


def _file(run: RunDirectory) -> Path:
    return run.data / "protection.json"
