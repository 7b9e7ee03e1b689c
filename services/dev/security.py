"""`--security` of a cluster in one process: its files in the data folder, and the settings of its gateway and first user."""

from dataclasses import replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from libs.host_port import with_port, without_brackets
from services.dev.data_folder import DataFolder
from services.dev.metadata_files import JOURNAL, SNAPSHOT
from services.dev.settings import Settings, WrongSetting

MARK: Final = "secured"
"""The file of a data folder that says that its cluster was made with `--security`. It outlives the folder of the secrets."""


def folder_of(data: str) -> Path:
    return Path(data, "security")


def secured(settings: Settings, folder: DataFolder, port: int) -> Settings:
    """The settings of a cluster that serves no client without TLS and a user, if `--security` is given. Raises WrongSetting."""
    data = Path(folder.path)
    was_secured = (data / MARK).exists() or folder_of(folder.path).exists()
    is_new = not any((data / name).exists() for name in (SNAPSHOT, JOURNAL))
    if was_secured and not settings.security:
        raise WrongSetting(f"--data is {folder.path!r}, made with --security, and would serve everybody without; give --security")
    if not settings.security:
        return settings
    if not was_secured and not is_new:
        raise WrongSetting(f"--security makes a new cluster, and the one of --data {folder.path!r} began without; choose another")
    if find_spec("cryptography") is None:
        raise WrongSetting("--security needs the package cryptography; install the wheel or checkout with its extra [security]")
    return _with_files(settings, folder, port, is_new=is_new)


def _with_files(settings: Settings, folder: DataFolder, port: int, *, is_new: bool) -> Settings:
    from libs.local_security.folder import Unusable, secure
    from services.controller.administration.first_users import read_users

    host = without_brackets(settings.advertised_host)
    servers = with_port(host, port)
    try:
        files = secure(folder_of(folder.path), [host], servers, datetime.now(UTC), is_new=is_new)
    except Unusable as error:
        raise WrongSetting(str(error)) from error
    Path(folder.path).chmod(0o700)  # its records are for clients who may read them
    (Path(folder.path) / MARK).touch(mode=0o600)
    gateway = {
        "plaintext_listener": False,
        "sasl_listener": f"SASL_SSL://{with_port(settings.host, port)}",
        "sasl_advertised_listener": f"SASL_SSL://{servers}",
        "ssl_keystore_location": str(files.keystore),
        "authorizer": "StandardAuthorizer",
        "super_users": ";".join(dict.fromkeys(("User:admin", *settings.super_users))),
    }
    users = read_users(str(files.first_users)) if files.knows_password else {}  # a later start has no need of it
    token = str(folder_of(folder.path) / "admin-token")
    return replace(settings, sasl=gateway, first_users={**settings.first_users, **users}, admin_token_file=token)
