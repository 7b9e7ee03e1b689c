"""The cluster that jobs read from and write to, and the choice of its topics. It needs no PySpark."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from libs.client.security import NO_SECURITY, Security
from services.pipeline.spark.cluster_security import java_properties


@dataclass(frozen=True)
class ClusterSettings:
    """The `[cluster]` table. `options` are properties of Kafka's Java clients, e.g. `client.rack`."""

    bootstrap_servers: str
    options: Mapping[str, str] = field(default_factory=dict)
    security: Security = NO_SECURITY

    @property
    def java_options(self) -> dict[str, str]:
        return {**self.options, **java_properties(self.security)}


@dataclass(frozen=True)
class Topics:
    """Names, or one Java regular expression; exactly one of them is given."""

    names: tuple[str, ...] = ()
    pattern: str | None = None

    def __post_init__(self) -> None:
        assert bool(self.names) != (self.pattern is not None)
