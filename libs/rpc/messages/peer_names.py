"""What a certificate says of the process that shows it: a URI among its names, `penstock://CLUSTER/ROLE/NODE`. Pure.

A certificate that is older than its cluster names none: `penstock:///storage/1`. Its authority then serves one cluster only.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from libs.rpc.messages.envelope import Hello
from libs.rpc.messages.errors import EnvelopeError

PREFIX: Final = "penstock://"
_DIGITS_MAX: Final = 10
"""Of a node id. Python refuses to read thousands."""


class PeerName(NamedTuple):
    cluster_id: str
    """Empty: any cluster."""
    role: str
    node_id: int


def names_in(uris: Sequence[str]) -> Iterator[PeerName]:
    """The names among the URIs of a certificate. Others are of no concern here."""
    for uri in uris:
        parts = uri.removeprefix(PREFIX).split("/")
        if uri.startswith(PREFIX) and len(parts) == 3 and _is_node_id(parts[2]):
            yield PeerName(parts[0], parts[1], int(parts[2]))


def _is_node_id(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX


def require_named(hello: Hello, uris: Sequence[str]) -> None:
    """Raises EnvelopeError unless the certificate of a connection names the process that its hello names.

    A hello without a node id needs a name of its role. One without a cluster id opens so little that it needs none of that.
    """
    if not any(_is_of(name, hello) for name in names_in(uris)):
        named = ", ".join(uris) or "nobody"
        raise EnvelopeError(f"the certificate is of {named[:256]}, and the hello of {hello.role} {hello.node_id}")


def _is_of(name: PeerName, hello: Hello) -> bool:
    return (
        name.role == hello.role
        and (name.node_id == hello.node_id or hello.node_id < 0)
        and (not name.cluster_id or not hello.cluster_id or name.cluster_id == hello.cluster_id)
    )
