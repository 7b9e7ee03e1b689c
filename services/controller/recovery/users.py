"""Users of a store that is written anew: those of a backup that has their SCRAM credentials, and those of a file."""

from collections.abc import Mapping, Sequence
from typing import Final

from libs.cluster import keys
from services.controller.administration.first_users import new_contents, read_users
from services.controller.core.administration.first_users import WrongUser
from services.controller.core.recovery.node_holdings import Source
from services.controller.recovery.store_contents import RecoveryRefused

NOT_SAVED: Final = "  users: their SCRAM credentials are not in it, so set them again with kafka-configs"
SAVED: Final = "  users: the SCRAM credentials of {users} are in it. Keep it as a secret"
NONE: Final = "  users: none has SCRAM credentials"
GONE: Final = "  users: all are gone, with their passwords. Set them again with kafka-configs"
THERE: Final = "  users: {users}, with their SCRAM credentials"


def with_users(values: Mapping[str, bytes], backups: Sequence[Source], file: str | None) -> dict[str, bytes]:
    """The content of a store, with the credentials of the newest backup that has any, and then those of the file. Raises
    RecoveryRefused."""
    content = dict(values)
    for backup in sorted(backups, key=lambda source: source.saved.saved_ms):
        if saved := {item.key: item.value for item in backup.saved.items if item.key.startswith(keys.SCRAM)}:
            content = {key: value for key, value in content.items() if not key.startswith(keys.SCRAM)} | saved
    if file is not None:
        try:
            added = new_contents(read_users(file))
        except WrongUser as error:
            raise RecoveryRefused(str(error)) from None
        content = {**added, **content, **{key: value for key, value in added.items() if key != keys.SCRAM_SECRET}}
    return content


def told(values: Mapping[str, bytes], present: str, absent: str) -> str:
    """The line for the operator."""
    users = {keys.scram_user_of(key)[1] for key in values if key.startswith(keys.SCRAM_CREDENTIALS)}
    return present.format(users=f"{len(users)} user{'s' if len(users) > 1 else ''}") if users else absent
