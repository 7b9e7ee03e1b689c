"""What the launcher tells a person when it cannot go on."""


class LauncherError(Exception):
    """The message is shown as it is; it says what is wrong and what to do about it."""
