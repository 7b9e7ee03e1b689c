"""The interface between the exporter's thread and the formats that it can send."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from libs.lean_dataclass import dataclass
from libs.telemetry.tracing.conventions import NODE_ID, SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION
from libs.telemetry.tracing.span import Span


class Origin(NamedTuple):
    """The service that made a span."""

    role: str
    node_id: int
    version: str

    @property
    def name(self) -> str:
        """As in `make status`: `storage-1`."""
        return f"{self.role}-{self.node_id}"


class FinishedSpan(NamedTuple):
    origin: Origin
    span: Span


_CREDENTIALS = re.compile(r"(\S*?//).*@|\S+@", re.DOTALL)


def shown(url: str) -> str:
    """A URL, or a sentence with one, for logs: without a user and a password."""
    return _CREDENTIALS.sub(r"\1", url)


class ExportFailed(Exception):
    """The error of a collector that did not take a batch. It says why."""


class Collector(Protocol):
    """A collector of spans, as one format reaches it. Only the exporter's thread sends."""

    def send(self, batch: Sequence[FinishedSpan]) -> None:
        """May block for seconds. Raises ExportFailed."""
        ...

    def close(self) -> None:
        """Ends a `send` that waits to try again; later ones fail at once. Any thread may call it."""
        ...


@dataclass(frozen=True, slots=True)
class ResourceSettings:
    """How the resource of a span differs from what its origin says."""

    service_name: str = ""
    """Of all services of the process. Empty: `penstock-` and the role."""
    attributes: tuple[tuple[str, str], ...] = ()

    def of(self, origin: Origin) -> Mapping[str, str | int]:
        """OpenTelemetry's resource attributes of an origin."""
        return {
            SERVICE_NAME: f"penstock-{origin.role.replace('_', '-')}",
            SERVICE_INSTANCE_ID: origin.name,
            SERVICE_VERSION: origin.version,
            NODE_ID: origin.node_id,
            **dict(self.attributes),
            **({SERVICE_NAME: self.service_name} if self.service_name else {}),
        }
