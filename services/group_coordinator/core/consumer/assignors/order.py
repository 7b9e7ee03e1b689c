"""The order in which assignors look at members."""

from services.group_coordinator.core.consumer.assignors.spec import GroupSpec


def members_in_order(spec: GroupSpec) -> list[str]:
    """Member ids in order: static members by instance id first, then the others by member id. So a static member keeps its place
    under a new member id. Strings compare as in Java, by UTF-16 units."""

    def place(member_id: str) -> tuple[bool, bytes]:
        instance_id = spec.members[member_id].instance_id
        name = member_id if instance_id is None else instance_id
        return instance_id is None, name.encode("utf-16-be", "surrogatepass")

    return sorted(spec.members, key=place)
