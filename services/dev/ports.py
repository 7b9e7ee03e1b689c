"""The ports of a cluster in one process: the bootstrap port, and the broker's, which is the next one."""

import errno
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from services.dev.settings import NODE_ID, WrongSetting

ATTEMPTS = 50


@contextmanager
def held_port(host: str, port: int, option: str = "--port") -> Iterator[int]:
    """The bootstrap port. It and the broker's are bound until the end of the context, without listening, so that no other process
    is given them meanwhile. Raises WrongSetting if they cannot be had. `option`: what named them, for its sentence."""
    for attempt in range(ATTEMPTS):
        with ExitStack() as stack:
            try:
                first = stack.enter_context(_bound(host, port, alone=port == 0))
                base = first.getsockname()[1]
                stack.enter_context(_bound(host, base + NODE_ID, alone=port == 0))
            except OSError as error:
                if port == 0 and attempt + 1 < ATTEMPTS and error.errno == errno.EADDRINUSE:
                    continue
                raise WrongSetting(_sentence(host, port, option, error)) from error
            except OverflowError:
                continue
            yield base
            return
    raise WrongSetting("no two free ports in a row were found for --port 0; give one by --port")


def _bound(host: str, port: int, *, alone: bool) -> socket.socket:
    """Raises OSError if another process listens at the port; with `alone`, also if it is bound there only."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        if not alone:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host.strip("[]"), port))
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the gateway binds it again while it is held
    except BaseException:
        bound.close()
        raise
    return bound


def _sentence(host: str, port: int, option: str, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        others = ", or free ones by --port 0" if option == "--port" else ""
        return f"port {port} or {port + NODE_ID} of {host} is taken; choose another by {option}{others}"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"port {port} of {host} may not be opened by this user; choose one above 1023 by {option}"
    given = "--host" if option == "--port" else option
    return f"{given} is {host!r}, where nothing can listen ({error.strerror or error}); expected an address of this machine"
