"""The file of users that a cluster has from its beginning: a line for each password.

Blank lines, and those that begin with `#`, say nothing.
"""

import logging
import secrets

from libs.cluster.scram_credentials import SALT_BITS, contents_of, salt_of
from libs.telemetry.logs import fields
from services.controller.administration.scram_credentials import new_secret
from services.controller.core.administration.first_users import Users, WrongUser, first_users

log = logging.getLogger("controller")

FILE_BYTES_MAX = 1 << 20


def read_users(path: str) -> Users:
    """Raises WrongUser, which shows nothing of a line."""
    try:
        with open(path, "rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
        lines = content.decode().splitlines()
    except OSError as error:
        raise WrongUser(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise WrongUser(f"{path} is no text in UTF-8") from None
    if len(content) > FILE_BYTES_MAX:
        raise WrongUser(f"{path} has more than {FILE_BYTES_MAX} bytes")
    numbered = [(f"{path}: line {number}", line) for number, line in enumerate(lines, 1)]
    users = first_users([each for each in numbered if each[1].strip() and not each[1].lstrip().startswith("#")], new_salt)
    if not users:
        raise WrongUser(f"{path} names no user")
    return users


def new_salt() -> bytes:
    return salt_of(secrets.randbits(SALT_BITS))


def new_contents(users: Users) -> dict[str, bytes]:
    """The contents of the store's keys, for a cluster that has no users yet."""
    return contents_of(users, new_secret())


def log_first_users(users: Users) -> None:
    if users:
        log.info("cluster created with its first users", extra=fields(users=",".join(sorted({user for _, user in users}))))
