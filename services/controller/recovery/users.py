"""Users of a store that is written anew: those of a backup that has their SCRAM credentials, and those of a file."""

from collections.abc import Mapping, Sequence
from typing import Final

from libs.cluster import keys
from libs.cluster.codec import decode
from libs.cluster.store import DENIED, CreateRevisionIs, MetadataStore, Outcome, Put
from services.controller.administration.first_users import new_contents, read_users
from services.controller.core.administration.first_users import WrongUser
from services.controller.core.recovery.node_holdings import Source
from services.controller.recovery.store_contents import RecoveryRefused

NOT_SAVED: Final = (
    "  users: their SCRAM credentials are not in it (`make backup CREDENTIALS=1`, or --with-credentials, saves them, too)"
)
SAVED: Final = "  users: the SCRAM credentials of {users} are in it. Keep it as a secret"
NONE: Final = "  users: none has SCRAM credentials"
GONE: Final = "  users: all are gone, with their passwords. Set them again with kafka-configs"
NOT_BEGUN: Final = "etcd holds no cluster yet: it will begin with these users"
ADDED: Final = "cluster {cluster}: set the passwords of {added} from {file}"
OTHERS: Final = "  users that were there before, and may log in: {others}"
ACLS: Final = "  ACLs that were there before, and count: {acls}"
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


async def add_users(store: MetadataStore, file: str) -> str:
    """Gives a cluster that is there the users of a file, and tells what else lets clients in. Raises RecoveryRefused,
    StoreUnavailable.

    Their passwords replace others: on a cluster that anybody could change, these may be anybody's.
    """
    stored = await store.get(keys.CLUSTER_ID)
    if stored is None:
        return NOT_BEGUN
    try:
        users = read_users(file)
    except WrongUser as error:
        raise RecoveryRefused(str(error)) from None
    former = {item.key for item in (await store.range(keys.SCRAM)).items}
    # The secret stays: with another one, unknown users would get other salts.
    puts = [Put(key, value) for key, value in new_contents(users).items() if key != keys.SCRAM_SECRET or key not in former]
    result = await store.txn([CreateRevisionIs(keys.CLUSTER_ID, stored.create_revision)], puts)
    if result.outcome is Outcome.DENIED:
        raise RecoveryRefused(DENIED)
    if result.outcome is not Outcome.OK:
        raise RecoveryRefused(f"etcd did not confirm a write ({result.outcome.value}): run the command again")
    added = {user for _, user in users}
    others = {keys.scram_user_of(key)[1] for key in former if key.startswith(keys.SCRAM_CREDENTIALS)} - added
    acls = len((await store.range(keys.ACLS)).items)
    lines = [ADDED.format(cluster=decode(str, stored.value), added=", ".join(sorted(added)), file=file)]
    lines += [OTHERS.format(others=", ".join(sorted(others)))] if others else []
    lines += [ACLS.format(acls=acls)] if acls else []
    return "\n".join(lines)


def told(values: Mapping[str, bytes], present: str, absent: str) -> str:
    """The line for the operator."""
    users = {keys.scram_user_of(key)[1] for key in values if key.startswith(keys.SCRAM_CREDENTIALS)}
    return present.format(users=f"{len(users)} user{'s' if len(users) > 1 else ''}") if users else absent
