"""The refusal of one item of a request. It is raised and caught within a core, and becomes data in the answer."""

from libs.wire.errors import ErrorCode


class Refused(Exception):
    """A refusal with the `error` and `message` that the client gets."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message
