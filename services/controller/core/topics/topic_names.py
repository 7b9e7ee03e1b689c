"""Checks of topic names, with Kafka's messages, and names that collide."""

from typing import Final

from libs.cluster.topic_names import MAX_NAME_LENGTH, is_legal

METADATA_TOPIC: Final = "__cluster_metadata"
"""KRaft's own log. As in Kafka, nobody can create a topic with this name."""


def name_problem(name: str) -> str | None:
    """The problem with a topic name, in Kafka's words; None if there is none."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return "Topic name is invalid: '.' or '..' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"Topic name is invalid: the length of '{shown(name)}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if not is_legal(name):
        return (
            f"Topic name is invalid: '{shown(name)}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    return None


def collision_key(name: str) -> str:
    """The key of colliding names. Two topics with the same key would share metric names, which write '.' as '_'."""
    return name.replace(".", "_")


def shown(name: str) -> str:
    """A name as a message may repeat it: printable and cut."""
    printable = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in name[: MAX_NAME_LENGTH + 1])
    return printable if len(name) <= MAX_NAME_LENGTH + 1 else printable + "…"
