"""The two systems under comparison, with a listener for TLS beside the plain one that tools use."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.sides import Side
from tests.bench.systems import SEGMENT_BYTES, other_pids
from tests.compat.kafka.broker import KafkaBroker
from tests.support.certificates import make_authority
from tests.support.cluster_harness import LocalCluster
from tests.support.ports import reserve_ports
from tests.support.requirements import ROOT


@contextmanager
def start_tls_penstock(durability: str, checkout: Path = ROOT, name: str = "penstock", *, gateways: int = 1) -> Iterator[Side]:
    """One storage node behind gateways, which clients take by turns. `checkout`: whose code runs."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as root:
        directory = Path(root)
        authority = make_authority(directory / "authority")
        ports = reserve_ports(10 * gateways)
        addresses = tuple(("127.0.0.1", ports.first + 10 * number) for number in range(gateways))
        keystore = str(authority.sign("server", "/O=Penstock/CN=server"))
        environment_of = {
            f"gateway-{number}": {
                "PENSTOCK_SSL_LISTENER": f"SSL://{host}:{port}",
                "PENSTOCK_SSL_KEYSTORE_LOCATION": keystore,
            }
            for number, (host, port) in enumerate(addresses, 1)
        }
        with LocalCluster(directory / "cluster", root=checkout, gateways=gateways, environment_of=environment_of) as cluster:
            pids = {name: cluster.pid(name) for name in (*environment_of, "storage-1")}
            yield Side(
                *(name, f"127.0.0.1:{ports.first}", {**SEGMENT_BYTES, "durability": durability}, durability, pids),
                other_pids=other_pids(cluster, pids),
                authority=authority.certificate,
                gateways=addresses if gateways > 1 else (),
            )
        ports.release()


@contextmanager
def start_tls_kafka(durability: str) -> Iterator[Side]:
    """`synced` is Kafka's `flush.messages=1`, as without TLS."""
    configs = {**SEGMENT_BYTES, "file.delete.delay.ms": "1000"}
    if durability == "synced":
        configs["flush.messages"] = "1"
    with tempfile.TemporaryDirectory(prefix="kafka-bench-") as root:
        directory = Path(root)
        authority = make_authority(directory / "authority")
        ports = reserve_ports(1)
        broker = KafkaBroker(directory / "kafka")
        plain, secured = broker.all_properties(), f",SSL://127.0.0.1:{ports.first}"
        broker.properties |= {
            "listeners": plain["listeners"] + secured,
            "advertised.listeners": plain["advertised.listeners"] + secured,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority.sign("server", "/O=Penstock/CN=server")),
        }
        if durability == "synced":
            broker.properties["log.flush.interval.messages"] = "1"
        with broker:
            named = "flush.messages=1" if durability == "synced" else "page cache"
            pids = {"broker": broker.pid}
            yield Side("kafka", f"127.0.0.1:{ports.first}", configs, named, pids, authority=authority.certificate)
        ports.release()
