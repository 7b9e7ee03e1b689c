"""Commands that a message tells a user to give."""

import re
import shlex

DEFAULT_RUN = ".run"
_COMMAND = re.compile(r"`make (up|down|wipe|status|backup|restore|rebuild|upgrade|from-kafka|to-kafka)(?=[` ])(?![^`]* RUN=)")


def with_given(message: str, run: str, port: str | None) -> str:
    """The message, each `make` of which names the cluster that the user named, and its port where one is started."""

    def completed(match: re.Match[str]) -> str:
        words = [f"RUN={shlex.quote(run)}"] if run != DEFAULT_RUN else []
        words += [f"PORT={port}"] if port is not None and match[1] in ("up", "from-kafka") else []
        return " ".join([match[0], *words])

    return _COMMAND.sub(completed, message)
