"""The config resources that a request may name, and the split into those for the controller and those that are refused. No I/O.

The controller decides whether the changes themselves are valid.
"""

from collections import Counter
from collections.abc import Sequence

from libs.cluster.configs.definitions import BROKER, KINDS
from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE
from libs.rpc.contracts.controller import ConfigResource, ConfigResult
from libs.wire.errors import ErrorCode


class Refused(Exception):
    """A refused resource. `error` and `message` go into its answer."""

    def __init__(self, error: ErrorCode, message: str | None) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def check_broker(image: ClusterImage, addressed: int, name: str, *, alternative: str = " or empty string") -> int:
    """The broker id that a resource names. On a broker's own port (`addressed`) it must be that broker. Raises Refused, with what
    else the name might be."""
    if not (name.isascii() and name.lstrip("-").isdigit() and len(name) <= 11):
        raise Refused(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name[:64]}")
    broker_id = int(name)
    if addressed >= 0 and broker_id != addressed:
        raise Refused(
            ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {addressed}{alternative}, but received {broker_id}"
        )
    if broker_id not in image.nodes and broker_id not in image.members(STORAGE):
        raise Refused(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, no broker has the id {broker_id}")
    return broker_id


def split_resources(
    image: ClusterImage, addressed: int, resources: Sequence[ConfigResource]
) -> tuple[list[ConfigResource], list[ConfigResult]]:
    """The resources for the controller, and the answers of the refused ones.

    A resource that is named twice is refused at each mention, and does not go to the controller.
    """
    mentions = Counter((resource.resource_type, resource.name) for resource in resources)
    forwarded: dict[tuple[int, str], ConfigResource] = {}
    refused: list[ConfigResult] = []
    for resource in resources:
        key = (resource.resource_type, resource.name)
        try:
            _check(image, addressed, resource, mentions[key])
        except Refused as refusal:
            refused.append(ConfigResult(resource.resource_type, resource.name, refusal.error, refusal.message))
        else:
            forwarded[key] = resource
    return [*forwarded.values()], refused


def _check(image: ClusterImage, addressed: int, resource: ConfigResource, mentions: int) -> None:
    if mentions > 1:
        raise Refused(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    if resource.resource_type not in KINDS:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")
    if resource.resource_type == BROKER and resource.name:
        check_broker(image, addressed, resource.name)
