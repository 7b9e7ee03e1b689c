"""The log lines of processes that come and go. Whichever controller is active writes them, each one once."""

import logging
from collections.abc import Mapping

from libs.cluster.image import ClusterImage
from libs.cluster.records import ElectedController, Member
from libs.telemetry.logs import fields

log = logging.getLogger("controller")

Members = Mapping[str, Mapping[int, Member]]
"""By role and node id."""


class MemberLog:
    """What a controller logs of members. Call `begin` with its first image, then `follow` with each one.

    A standby leaves the lines to the active controller. It knows the members of the last image with another controller, so at a
    takeover it logs who came and went since then.
    """

    def __init__(self, own: ElectedController) -> None:
        self._own = own
        self._known: Members = {}
        """The members of whom nothing is to be logged: another controller did, or they were there before this one."""

    def begin(self, image: ClusterImage) -> None:
        self._known = image.members_by_role

    def follow(self, image: ClusterImage, *, active: bool) -> None:
        if image.controller == self._own:
            if active:
                log_members(self._known, image.members_by_role)
                self._known = image.members_by_role
        elif image.controller is not None:
            self._known = image.members_by_role

    def begin_term(self, image: ClusterImage) -> None:
        """Logs who came and went between two controllers, and who is a member now."""
        self.follow(image, active=True)
        members = {role: sorted(members) for role, members in sorted(image.members_by_role.items()) if members}
        log.info("active controller", extra=fields(revision=image.revision, topics=len(image.topics), **members))


def log_members(old: Members, new: Members) -> None:
    """Logs which processes registered, and which are members no more."""
    if old is new:
        return
    for role in sorted(old.keys() | new.keys()):
        before, after = old.get(role, {}), new.get(role, {})
        for node_id in sorted(before.keys() - after.keys()):
            log.info("member gone", extra=fields(role=role, node=node_id, incarnation=before[node_id].incarnation))
        for node_id, member in sorted(after.items()):
            if node_id not in before or before[node_id].incarnation != member.incarnation:
                log.info("member registered", extra=fields(role=role, node=node_id, incarnation=member.incarnation))
