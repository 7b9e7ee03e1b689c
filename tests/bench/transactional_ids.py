"""The memory of a transaction coordinator that knows 100,000 transactional ids, and how long it takes to load them.

    python -m tests.bench.transactional_ids

One storage node and one coordinator. Each id gets its producer id over one of 64 connections. Then the coordinator is killed and
started again, so that it reads its shards.
"""

import asyncio
import json
import sys
import time

from libs.wire.api_keys import ApiKey
from libs.wire.messages.init_producer_id import InitProducerIdRequest, read_response, write_request
from libs.wire.primitives import Writer
from tests.compat.clients.transactions.transactional import transactional
from tests.gateway.kafka_client import RawClient
from tests.support.cluster_harness import LocalCluster

IDS, CONNECTIONS, VERSION = 100_000, 64, 1
RETRY_S = 0.02
MB = 1_000_000
COORDINATOR = "transaction_coordinator-1"


async def initialize(port: int) -> None:
    """Gives each transactional id a producer id."""
    names = iter([f"transactional-id-{number}" for number in range(IDS)])

    async def work() -> None:
        client = await RawClient.connect(port)
        for name in names:
            writer = Writer()
            write_request(writer, InitProducerIdRequest(name, 60_000), VERSION)
            while True:
                client.ask(ApiKey.INIT_PRODUCER_ID, VERSION, bytes(writer.buffer))
                _, reader = await client.answer(ApiKey.INIT_PRODUCER_ID, VERSION)
                if not read_response(reader, VERSION).error_code:
                    break
                await asyncio.sleep(RETRY_S)

    await asyncio.gather(*[work() for _ in range(CONNECTIONS)])


def transactional_ids() -> list[dict[str, object]]:
    with LocalCluster(storage=1) as cluster:
        transactional(cluster.bootstrap, "the first, which makes the topic")
        before = cluster.memory_bytes(COORDINATOR)
        began = time.perf_counter()
        asyncio.run(initialize(int(cluster.bootstrap.split(",")[0].rpartition(":")[2])))
        initialized_s = time.perf_counter() - began
        after = cluster.memory_bytes(COORDINATOR)
        cluster.kill(COORDINATOR)
        began = time.perf_counter()
        cluster.start(COORDINATOR)
        cluster.wait_ready([COORDINATOR])
        transactional(cluster.bootstrap, "the last, once the shards are served")
        loaded_s = time.perf_counter() - began
        loaded = cluster.memory_bytes(COORDINATOR)
    figure = {
        "name": "transactional-ids",
        "ids": IDS,
        "idle_mb": round(before / MB, 1),
        "known_mb": round(after / MB, 1),
        "after_a_load_mb": round(loaded / MB, 1),
        "mark": "< 300 MB",
        "initialized_per_second": round(IDS / initialized_s),
        "started_and_loaded_s": round(loaded_s, 1),
    }
    return [figure]


def main() -> int:
    for figure in transactional_ids():
        print(json.dumps(figure), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
