"""What every process answers to one that starts while the metadata store is away: the image of the cluster that it goes on with.

The image itself is the payload, as `libs/cluster/peer_image.py` writes it.
"""

from dataclasses import dataclass

IMAGE_AT = "peers.image_at"
IMAGE = "peers.image"


@dataclass(frozen=True, slots=True)
class ImageAt:
    """Answers both. `revision` 0: there is no image here (yet)."""

    revision: int
    cluster_id: str
