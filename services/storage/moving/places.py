"""Whether the partition states name the log directories in which the replicas lie.

A replica that moves is announced where it will be before it is there (KIP-858): whatever the controller decides by the state is
never decided by a directory that holds no log any more. Meanwhile the state names a directory that holds a copy only. What the
state should not say, it is told to say otherwise, for as long as it takes: of a move that ended, of a directory that failed.
"""

from services.storage.core.leadership import assigned_directory, hosts
from services.storage.disks import Disk, Disks
from services.storage.hosted import Hosted, Key
from services.storage.partitions import Partitions
from services.storage.placements import Placements
from services.storage.withdrawals import Withdrawals


class Places:
    def __init__(self, partitions: Partitions, disks: Disks, placements: Placements, withdrawals: Withdrawals) -> None:
        self._partitions = partitions
        self._disks = disks
        self._placements = placements
        self._withdrawals = withdrawals

    def check(self, hosted: Hosted, home: Disk) -> None:
        """To be called when its state, its home or a directory changed."""
        key = hosted.key
        named = self._named(key)
        if named is None or named == home.directory_id:
            return
        is_usable = named in self._disks.directory_ids
        if home.sync.failed:
            if is_usable or not named:  # so the controller cannot tell that the log is gone
                self._withdrawals.withdraw(key)
        elif not (hosted.moving and is_usable):
            self._placements.settled(key, home.directory_id)

    def names(self, key: Key, disk: Disk) -> bool:
        """The state does, and will."""
        return self._named(key) == disk.directory_id and self._placements.on_the_way(key) <= {disk.directory_id}

    def may_name(self, key: Key, disk: Disk) -> bool:
        """The state does, or will."""
        named = self._named(key)
        return named is not None and disk.directory_id in {named, *self._placements.on_the_way(key)}

    def ask(self, key: Key, disk: Disk) -> None:
        self._placements.ask(key, disk.directory_id)

    def _named(self, key: Key) -> str | None:
        """None: it is not to be here."""
        state, node_id = self._partitions.image.partition(*key), self._partitions.node_id
        return assigned_directory(state, node_id) if state is not None and hosts(state, node_id) else None
