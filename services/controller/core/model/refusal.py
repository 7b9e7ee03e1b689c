"""A request's item that is not carried out: data for its answer, raised only within a core and caught there."""

from libs.wire.errors import ErrorCode


class Refused(Exception):
    """`error` and `message` go to the client."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message
