"""A broker's `server.properties`, in the format of Java's Properties."""

from collections.abc import Mapping

from libs.commitlog.files.durable_files import read_file
from libs.commitlog.files.filesystem import FileSystem
from libs.java_properties import parse_properties
from services.controller.recovery.store_contents import RecoveryRefused


def read_server_properties(fs: FileSystem, path: str) -> dict[str, str]:
    """The properties in the file. Raises RecoveryRefused if it names no directory, OSError."""
    properties = parse_properties((read_file(fs, path) or b"").decode("latin-1"))
    alone = is_controller_alone(properties) and properties.get("metadata.log.dir")
    if not (log_dirs_of(properties) or alone):
        raise RecoveryRefused(f"{path} names no log.dirs: it is no server.properties")
    return properties


def log_dirs_of(properties: Mapping[str, str]) -> str:
    """The list of log directories, "" if the properties have none."""
    return properties.get("log.dirs") or properties.get("log.dir", "")


def is_controller_alone(properties: Mapping[str, str]) -> bool:
    """Whether the node is no broker, and so has no logs of topics."""
    return [role.strip() for role in properties.get("process.roles", "").split(",")] == ["controller"]
