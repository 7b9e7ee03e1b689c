"""`host:port`, where an IPv6 address stands in brackets."""

MAPPED = "::ffff:"
"""So an IPv4 address begins at a socket that serves both."""


def with_port(host: str, port: int | str) -> str:
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


def split_port(address: str) -> tuple[str, str]:
    """The host without brackets, and the text of the port. The host is empty if it is an IPv6 address without brackets, whose end
    could be a port."""
    host, _, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], port
    return ("", port) if ":" in host else (host, port)


def without_brackets(host: str) -> str:
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def peer_host(host: str) -> str:
    """The host of a peer's socket address: its IPv4 address, if it has one."""
    return host.removeprefix(MAPPED) if "." in host else host
