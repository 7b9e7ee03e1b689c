"""The failures of a call. Each tells whether the request may have reached the other side (`sent`)."""


class RpcFailure(Exception):
    """A call brought no answer."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent
        """Whether any byte of the request left this process. If none did, the request can safely be sent to another process."""


class RpcError(RpcFailure):
    """A call that the other side refused, or in which it failed. `code` is a Kafka error code where one fits."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} (error {code})", sent=True)
        self.code = code
        self.message = message


class Denied(RpcError):
    """A call that its caller may not make, or whose body names another sender than the connection's hello."""

    def __init__(self, message: str) -> None:
        super().__init__(CLUSTER_AUTHORIZATION_FAILED, message)


class Disconnected(RpcFailure):
    """The connection could not be made, or was lost before the answer came."""


class ShuttingDown(RpcFailure):
    """The other side is stopping and did not look at the request. It counts as not sent."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=False)


class DeadlineExceeded(RpcFailure):
    """No answer came in time. The other side may still carry the request out."""


class Overloaded(RpcFailure):
    """A call that was refused locally, since too many bytes wait for answers."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=False)


class ContractError(ValueError):
    """A body does not have the shape that its contract says."""


class EnvelopeError(ValueError):
    """A frame is not what it should be. The connection is closed, since nothing after it can be trusted."""


# Kafka's codes of the errors that the transport of a call can have (libs/wire/errors.py has all codes).
UNKNOWN_SERVER_ERROR = -1
REQUEST_TIMED_OUT = 7
BROKER_NOT_AVAILABLE = 8
CLUSTER_AUTHORIZATION_FAILED = 31
UNSUPPORTED_VERSION = 35
INVALID_REQUEST = 42
KAFKA_STORAGE_ERROR = 56
