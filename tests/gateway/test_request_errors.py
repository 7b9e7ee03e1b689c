"""Errors in answers to clients are counted by API and by Kafka's name, whoever made the answer.

Only single counts are looked at: clients of other tests may still try a port that is used again.
"""

from prometheus_client.parser import text_string_to_metric_families

from libs.cluster import keys
from libs.cluster.store import Delete
from libs.wire.api_keys import ApiKey
from libs.wire.messages import heartbeat, list_offsets
from libs.wire.record_batches.records import Record, build_batch
from tests.gateway.conftest import TOPIC, Rig
from tests.gateway.fake_groups import ask
from tests.gateway.kafka_client import fetch_body, produce_body

BATCH = bytes(build_batch([Record(None, b"x")]))


def errors(rig: Rig, api: str) -> dict[str, float]:
    """The counts of an API by error, but for what has not been."""
    return {
        sample.labels["error"]: sample.value
        for family in text_string_to_metric_families(rig.metrics.render().decode())
        for sample in family.samples
        if sample.name == "penstock_gateway_request_errors_total" and sample.labels["api"] == api and sample.value
    }


async def test_errors_of_produce_and_fetch_are_counted_by_partition(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    await client.produce(9, produce_body(9, [(TOPIC, [(0, BATCH)])]))
    assert not errors(rig, "produce")
    await client.produce(9, produce_body(9, [("nowhere", [(0, BATCH), (1, BATCH)])]))
    assert errors(rig, "produce")["UNKNOWN_TOPIC_OR_PARTITION"] == 2
    await client.fetch(12, fetch_body(12, [("nowhere", [(0, 0)])]))
    assert errors(rig, "fetch")["UNKNOWN_TOPIC_OR_PARTITION"] == 1


async def test_errors_of_handlers_are_counted_wherever_they_stand_in_the_response(rig: Rig) -> None:
    await rig.start()
    client = await rig.client(1)
    topics = [list_offsets.ListOffsetsTopic("nowhere", [list_offsets.ListOffsetsPartition(n, timestamp=-1) for n in range(3)])]
    await ask(client, ApiKey.LIST_OFFSETS, 7, list_offsets.ListOffsetsRequest(topics=topics))
    assert errors(rig, "list_offsets")["UNKNOWN_TOPIC_OR_PARTITION"] == 3


async def test_a_refusal_in_place_of_a_coordinator_counts_with_the_error_that_the_client_gets(rig: Rig) -> None:
    gateway = await rig.start()
    result = await rig.store.txn([], [Delete(keys.topic("__consumer_offsets"))])
    assert await gateway.wait_for_revision(result.revision, 10)
    client = await rig.client(1)
    for group_id in ("g", "g", ""):
        await ask(client, ApiKey.HEARTBEAT, 3, heartbeat.HeartbeatRequest(group_id))
    assert errors(rig, "heartbeat") == {"NOT_COORDINATOR": 2, "INVALID_GROUP_ID": 1}
