"""The `[telemetry]` table of a job file. It needs no PySpark."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TelemetrySettings:
    """`metrics_port` None: metrics are not served. `otlp_endpoint` None: no spans are made."""

    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    otlp_endpoint: str | None = None
