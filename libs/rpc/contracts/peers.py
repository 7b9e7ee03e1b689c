"""The requests that every process answers to one that starts while the metadata store is away: for its cluster image.

The image itself is the payload, as `libs/cluster/peer_image.py` writes it.
"""

from libs.lean_dataclass import dataclass

IMAGE_AT = "peers.image_at"
IMAGE = "peers.image"


@dataclass(frozen=True, slots=True)
class ImageAt:
    """The answer to both requests. `revision` 0: the peer has no image (yet)."""

    revision: int
    cluster_id: str
