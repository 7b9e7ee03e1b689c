"""Sends sequences, and judges after each: `python -m tests.fuzz.live.sequences [--seconds N] [--seed N]`."""

import argparse
import select
import socket
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Final

from libs.wire.api_keys import ApiKey
from tests.dev.bounds.requests import NUMBERS
from tests.fuzz.live.attacked_cluster import MECHANISM, AttackedCluster, AttackedClusters
from tests.fuzz.live.mutations import body_of, frame, sequence
from tests.support.transport_halves import has_nodes

CALM_ROUNDS_MAX: Final = 3
"""Rounds of the calm client after which nobody waits for answers any longer: some requests are parked for minutes."""
MODES: Final = ("plain", "before authentication", "authenticated")


def attack(clusters: AttackedClusters, seed: int) -> None:
    """One connection with one sequence, beside rounds of the calm client. Raises AssertionError that names the seed."""
    random = Random(seed)
    mode = MODES[seed % len(MODES)]
    cluster = clusters.of(node=has_nodes(seed))
    known = cluster.known._replace(number=next(NUMBERS), group=random.choice(("classic", "consumer")))
    frames = sequence(random, known)
    try:
        with _connection(cluster, mode) as attacker:
            if mode == "before authentication":
                frames.insert(random.randrange(len(frames) + 1), _handshake(random))
            _send(attacker, frames, random)
            for _ in range(CALM_ROUNDS_MAX):
                cluster.calm_round()
                if _has_ended(attacker):
                    break
        cluster.check()
    except (AssertionError, OSError) as error:
        raise AssertionError(f"seed {seed} ({mode}): {error!r}\n{[each.hex() for each in frames]}") from error


def _connection(cluster: AttackedCluster, mode: str) -> socket.socket:
    if mode == "authenticated":
        return cluster.authenticated()
    return socket.create_connection(cluster.plain if mode == "plain" else cluster.sasl, timeout=30)


def _handshake(random: Random) -> bytes:
    version = random.choice((0, 1))
    return frame(ApiKey.SASL_HANDSHAKE, version, body_of(ApiKey.SASL_HANDSHAKE, version, {"mechanism": MECHANISM}), 99)


def _send(attacker: socket.socket, frames: list[bytes], random: Random) -> None:
    """In one piece, or in two."""
    content = b"".join(frames)
    cut = random.randrange(len(content) + 1)
    try:
        for piece in (content[:cut], content[cut:]):
            attacker.sendall(piece)
    except ConnectionError:
        pass


def _has_ended(attacker: socket.socket) -> bool:
    """Takes what is there to be read. True: the gateway has closed the connection."""
    try:
        while select.select([attacker], [], [], 0)[0]:
            if not attacker.recv(65_536):
                return True
    except ConnectionError:
        return True
    return False


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz TARGET=gateway", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, help="the first of them; by default one that depends on the time")
    chosen = parser.parse_args()
    first = chosen.seed if chosen.seed is not None else int(time.time()) * 1_000
    seed = first
    with (
        tempfile.TemporaryDirectory() as folder,
        AttackedClusters(Path(folder), chosen.seconds + 600) as clusters,
    ):
        ends = time.monotonic() + chosen.seconds
        while seed == first or time.monotonic() < ends:
            attack(clusters, seed)
            seed += 1
    print(f"gateway: {seed - first} sequences from seed {first} on")
    return 0


if __name__ == "__main__":
    sys.exit(main())
