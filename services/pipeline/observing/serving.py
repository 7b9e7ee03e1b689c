"""The metrics of a driver, served for Prometheus."""

from typing import Any

from prometheus_client import start_http_server

from libs.telemetry.metrics import Metrics
from services.pipeline.errors import PipelineError
from services.pipeline.observing.pipeline_meters import PipelineMeters


class MetricsServer:
    """Serves `/metrics` in a thread. Raises PipelineError if the port is taken."""

    def __init__(self, meters: PipelineMeters, host: str, port: int) -> None:
        metrics = Metrics("pipeline", process=True)
        metrics.registry.register(meters)
        try:
            self._server: Any
            self._server, self._thread = start_http_server(port, addr=host, registry=metrics.registry)
        except OSError as error:
            raise PipelineError(f"telemetry.metrics_port: {host}:{port} cannot be listened on: {error.strerror}") from error

    @property
    def port(self) -> int:
        return int(self._server.server_port)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
