"""What clients changed is in the active controller's log, with who asked for it."""

import logging

import pytest

from libs.rpc.contracts.controller import (
    AlterClientQuotas,
    AlterClientQuotasReply,
    AlterConfigs,
    AlterConfigsReply,
    AlterReassignments,
    AlterReassignmentsReply,
    ConfigChange,
    ConfigResource,
    ConfigResult,
    CreateInternalTopic,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectedLeader,
    ElectLeaders,
    ElectLeadersReply,
    EntityQuotas,
    EntityQuotasResult,
    MorePartitions,
    NewTopic,
    QuotaChange,
    Reassignment,
    ReassignmentResult,
    TopicRef,
    TopicResult,
    TopicsReply,
    UnregisterBroker,
    UnregisterBrokerReply,
    UpdateFeatures,
    UpdateFeaturesReply,
)
from services.controller.administration.audit_log import LINES_MAX, log_changes

WHO = "app from 10.0.0.7:4711"
ID = b"\1" * 16
MADE = TopicsReply((TopicResult("t", 0, None, ID, 3, 2), TopicResult("u", 36)), 7)


def configs(resource_type: int, name: str, *changes: ConfigChange) -> tuple[AlterConfigs, AlterConfigsReply]:
    reply = AlterConfigsReply((ConfigResult(resource_type, name, 0),), 7)
    return AlterConfigs((ConfigResource(resource_type, name, changes),), asked_by=WHO), reply


@pytest.mark.parametrize(
    ("asked", "event", "details"),
    [
        (
            (CreateTopics((NewTopic("t", 3, 2), NewTopic("u", 1, 1)), asked_by=WHO), MADE),
            "topic created",
            {"topic": "t", "topic_id": ID.hex(), "partitions": 3, "replication_factor": 2},
        ),
        (
            (DeleteTopics((TopicRef("t"),), asked_by=WHO), TopicsReply((TopicResult("t", 0, None, ID),), 7)),
            "topic deleted",
            {"topic": "t", "topic_id": ID.hex()},
        ),
        (
            (CreatePartitions((MorePartitions("t", 9),), asked_by=WHO), TopicsReply((TopicResult("t", 0),), 7)),
            "partitions added",
            {"topic": "t", "partitions": 9},
        ),
        (
            configs(2, "t", ConfigChange("retention.ms", 0, "5"), ConfigChange("cleanup.policy", 1, None)),
            "configs changed",
            {"topic": "t", "configs": ["retention.ms=5", "-cleanup.policy"]},
        ),
        (
            configs(
                4,
                "",
                ConfigChange("ssl.keystore.password", 0, "hunter2"),
                ConfigChange("my.plugin.api.token", 0, "hunter2"),
                ConfigChange("log.retention.ms", 0, "5"),
            ),
            "configs changed",
            {
                "broker": "(all)",
                "configs": ["ssl.keystore.password=[hidden]", "my.plugin.api.token=[hidden]", "log.retention.ms=5"],
            },
        ),
        (
            (
                AlterClientQuotas(
                    (
                        EntityQuotas(
                            (("client-id", None), ("user", "u")),
                            (QuotaChange("producer_byte_rate", 1048576.0), QuotaChange("request_percentage", None)),
                        ),
                        EntityQuotas((("user", ""),), (QuotaChange("producer_byte_rate", 1.0),)),
                    ),
                    asked_by=WHO,
                ),
                AlterClientQuotasReply(
                    (EntityQuotasResult((("client-id", None), ("user", "u")), 0), EntityQuotasResult((("user", ""),), 42)), 7
                ),
            ),
            "quotas changed",
            {
                "entity": {"client-id": "<default>", "user": "u"},
                "quotas": ["producer_byte_rate=1048576", "-request_percentage"],
            },
        ),
        (
            (
                AlterReassignments((Reassignment("t", 0, (1, 2)),), asked_by=WHO),
                AlterReassignmentsReply((ReassignmentResult("t", 0, 0),), 7),
            ),
            "reassignment begun",
            {"partition": "t-0", "replicas": [1, 2]},
        ),
        (
            (
                AlterReassignments((Reassignment("t", 0, None),), asked_by=WHO),
                AlterReassignmentsReply((ReassignmentResult("t", 0, 0),), 7),
            ),
            "reassignment cancelled",
            {"partition": "t-0"},
        ),
        (
            (ElectLeaders(1, None, asked_by=WHO), ElectLeadersReply((ElectedLeader("t", 0, 0), ElectedLeader("t", 1, 84)), 7)),
            "leader elected",
            {"partition": "t-0", "election": "unclean"},
        ),
        ((UnregisterBroker(3, asked_by=WHO), UnregisterBrokerReply(7)), "broker unregistered", {"node": 3}),
        (
            (UpdateFeatures((), asked_by=WHO), UpdateFeaturesReply(7, (("transaction.version", 1),))),
            "feature updated",
            {"feature": "transaction.version", "level": 1},
        ),
    ],
)
def test_each_change_has_a_line_with_who_asked_for_it(
    caplog: pytest.LogCaptureFixture, asked: tuple[object, object], event: str, details: dict[str, object]
) -> None:
    caplog.set_level(logging.INFO)
    log_changes(*asked)
    (line,) = caplog.records
    assert (line.message, line.fields) == (event, {**details, "asked_by": WHO})  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        (CreateTopics((NewTopic("t", 3, 2),), validate_only=True), MADE),
        (CreateInternalTopic("__consumer_offsets"), TopicsReply((TopicResult("__consumer_offsets", 0, None, ID, 50),), 7)),
        (DeleteTopics((TopicRef("t"),)), TopicsReply((TopicResult("t", 3),), 7)),
        (ElectLeaders(0, None), ElectLeadersReply((ElectedLeader("t", 0, 84),), 7)),
    ],
    ids=["validated only", "was there", "unknown topic", "not needed"],
)
def test_what_changed_nothing_has_no_line(caplog: pytest.LogCaptureFixture, request_: object, reply: object) -> None:
    caplog.set_level(logging.INFO)
    log_changes(request_, reply)
    assert caplog.records == []


def test_one_request_has_a_bounded_number_of_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    names = [f"t{number}" for number in range(LINES_MAX + 10)]
    request = DeleteTopics(tuple(TopicRef(name) for name in names), asked_by=WHO)
    log_changes(request, TopicsReply(tuple(TopicResult(name, 0, None, ID) for name in names), 7))
    assert len(caplog.records) == LINES_MAX + 1
    assert caplog.records[-1].fields == {"count": 10, "asked_by": WHO}  # type: ignore[attr-defined]
