"""ADD_SCRAM_FILE= of `make up`: the file of users that a new cluster has from its beginning.

The file is named, and not what it holds: the arguments and the environment of a process are there for others to read.
"""

from collections.abc import Callable
from pathlib import Path

from services.local.errors import LauncherError
from services.local.run_directory import RunDirectory

SETTING = "PENSTOCK_ADD_SCRAM_FILE"


def settings_for(file: Path, run: RunDirectory, say: Callable[[str], None]) -> dict[str, str]:
    """The settings of controllers that ADD_SCRAM_FILE= stands for. Raises LauncherError."""
    if not file.is_file():
        raise LauncherError(f"ADD_SCRAM_FILE={file} is no file")
    if run.data_directory("etcd").exists():
        say(f"{file} is read only if the cluster has not begun yet; kafka-configs adds and changes users (docs/security.md)")
    return {SETTING: str(file)}
