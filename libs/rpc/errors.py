"""How a call can fail. Every failure tells whether the request may have reached the other side (`sent`)."""


class RpcFailure(Exception):
    """A call brought no answer."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent
        """False: nothing of the request left this process, so it can be given to somebody else without a thought."""


class RpcError(RpcFailure):
    """The other side refused, or failed. `code` is a Kafka error code where one fits."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} (error {code})", sent=True)
        self.code = code
        self.message = message


class Disconnected(RpcFailure):
    """The connection could not be made, or was lost before the answer came."""


class ShuttingDown(RpcFailure):
    """The other side is on its way out and did not look at the request: it is as if it had never been sent."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=False)


class DeadlineExceeded(RpcFailure):
    """No answer in time. The other side may still do it."""


class Overloaded(RpcFailure):
    """Refused here and now: too many bytes wait for answers."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=False)


class ContractError(ValueError):
    """A body does not have the shape that its contract says."""


class EnvelopeError(ValueError):
    """A frame is not what it should be. The connection is closed, since nothing after it can be trusted."""


# Kafka's codes, for what the transport of a call itself can say (libs/wire/errors.py has them all).
UNKNOWN_SERVER_ERROR = -1
REQUEST_TIMED_OUT = 7
BROKER_NOT_AVAILABLE = 8
UNSUPPORTED_VERSION = 35
INVALID_REQUEST = 42
