"""Three Apache Kafka brokers, each a controller too, as one cluster."""

import signal
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from tests.compat.kafka.broker import KafkaBroker
from tests.support.ports import reserve_ports

NODES = (1, 2, 3)


class KafkaTrio:
    """Use as a context manager. Kafka's defaults but for the factors of its internal topics, which would be 1."""

    def __init__(
        self, directory: Path, *, properties: Mapping[str, str] | None = None, heap: str = "512m", options: tuple[str, ...] = ()
    ) -> None:
        self._reservation = reserve_ports(2 * len(NODES))
        ports = {node: self._reservation.first + 2 * (node - 1) for node in NODES}
        voters = ",".join(f"{node}@127.0.0.1:{port + 1}" for node, port in ports.items())
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports.values())
        self._brokers = {
            node: KafkaBroker(
                directory / f"kafka-{node}",
                port=port,
                properties={
                    "node.id": str(node),
                    "controller.quorum.voters": voters,
                    "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}",
                    "offsets.topic.replication.factor": "3",
                    "transaction.state.log.replication.factor": "3",
                    "transaction.state.log.min.isr": "2",
                    **(properties or {}),
                },
                heap=heap,
                options=options,
            )
            for node, port in ports.items()
        }

    def start(self) -> "KafkaTrio":
        """Returns when all answer: none does before there is a quorum."""
        with ThreadPoolExecutor(len(NODES)) as pool:
            list(pool.map(lambda broker: broker.start(), self._brokers.values()))
        return self

    @property
    def pids(self) -> dict[str, int]:
        return {f"broker-{node}": broker.pid for node, broker in self._brokers.items()}

    def kill(self, node: int) -> None:
        self._brokers[node].stop(number=signal.SIGKILL)

    def restart(self, node: int) -> None:
        """Starts a broker after `kill`, and returns when it answers."""
        self._brokers[node].start()

    def __enter__(self) -> "KafkaTrio":
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Kills the brokers: the last one would wait a minute for a quorum that it could leave."""
        for node in NODES:
            self.kill(node)
        for broker in self._brokers.values():
            broker.close()
        self._reservation.release()
