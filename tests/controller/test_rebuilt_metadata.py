"""Metadata that is rebuilt from what storage nodes hold: what is taken in, what stays away, and who is asked for its log."""

from dataclasses import replace

import pytest

from libs.cluster import keys
from libs.cluster.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from libs.cluster.codec import decode, encode
from libs.cluster.image import ClusterImage
from libs.cluster.records import (
    AclRecord,
    ClientQuotas,
    ConfigOverrides,
    HistoryEntry,
    MetadataHistory,
    NodeRecord,
    PartitionState,
    QuotaEntity,
    Replica,
    Topic,
)
from libs.cluster.saved_metadata import backup_of, parse_file
from libs.cluster.store import KeyValue, RangeResult
from services.controller.core.elections.doubt import EPOCHS_SKIPPED, PRODUCER_IDS_SKIPPED
from services.controller.core.recovery.node_holdings import DeletedPartition, HeldPartition, NodeHoldings, Source
from services.controller.core.recovery.rebuilt_metadata import UNKNOWN_OWNER_EPOCH, CannotRebuild, Rebuilt, rebuild

T, U, NEW = "11" * 16, "22" * 16, "33" * 16
ACL = AclBinding(ResourceType.GROUP, PatternType.LITERAL, "*", "User:u", "*", AclOperation.READ, AclPermission.DENY)


def state(*nodes: int, epoch: int = 4, adding: tuple[int, ...] = (), removing: tuple[int, ...] = ()) -> PartitionState:
    replicas = tuple(Replica(node, f"d{node}") for node in nodes)
    return PartitionState(replicas, nodes[0], 7, epoch, 9, (), adding=adding, removing=removing)


def saved(
    revision: int, topics: dict[str, tuple[str, list[PartitionState]]], *, name: str = "a copy", producer_ids: int = 0
) -> Source:
    """Files of higher revisions are newer."""
    history = MetadataHistory((HistoryEntry(1, 1),))
    values = {
        keys.CLUSTER_ID: encode("c"),
        keys.FEATURE_LEVEL: encode(2),
        keys.feature("transaction.version"): encode(1),
        keys.HISTORY: encode(history),
        keys.PRODUCER_IDS: encode(producer_ids),
        keys.config("broker", ""): encode(ConfigOverrides({"num.partitions": "5"})),
        keys.config("group", "g"): encode(ConfigOverrides({"consumer.session.timeout.ms": "50000"})),
        keys.acl(ACL): encode(AclRecord()),
        keys.client_quotas(QuotaEntity("u")): encode(ClientQuotas({"producer_byte_rate": 1024.0})),
    }
    for node in (1, 2, 3):
        values[keys.node(node)] = encode(NodeRecord(node, (f"d{node}",), f"rack-{node}"))
    for topic, (topic_id, states) in topics.items():
        values[keys.topic(topic)] = encode(Topic(topic, topic_id, len(states)))
        values[keys.config("topic", topic)] = encode(ConfigOverrides({"retention.ms": "77"}))
        for index, each in enumerate(states):
            values[keys.partition(bytes.fromhex(topic_id), index)] = encode(each)
    items = tuple(KeyValue(key, value, 1, 1, 0) for key, value in values.items())
    return Source(name, parse_file(backup_of(RangeResult(items, revision), revision)))


def node(
    node_id: int, *held: tuple[str, str, int], deleted: tuple[tuple[str, int], ...] = (), epoch: int = 4, written_ms: int = 0
) -> NodeHoldings:
    """`held`: (topic, topic id, partition)."""
    partitions = tuple(HeldPartition(topic, index, id_, f"d{node_id}", epoch, 0, written_ms) for topic, id_, index in held)
    return NodeHoldings(node_id, "c", (f"d{node_id}",), partitions, tuple(DeletedPartition(*each) for each in deleted))


def rebuilt(nodes: list[NodeHoldings], *sources: Source) -> Rebuilt:
    return rebuild(nodes, sources, feature_level=1, now_ms=1000)


def image_of(result: Rebuilt) -> ClusterImage:
    items = tuple(KeyValue(key, value, 1, 1, 0) for key, value in result.values.items())
    return ClusterImage.from_range(RangeResult(items, 1))


def partition(result: Rebuilt, topic_id: str, index: int = 0) -> PartitionState:
    found = image_of(result).partition(bytes.fromhex(topic_id), index)
    assert found is not None
    return found


def replicas(found: PartitionState) -> list[int]:
    return [replica.node_id for replica in found.replicas]


def asked(found: PartitionState) -> list[int]:
    """The nodes whose logs decide who leads."""
    return sorted(member.node_id for member in found.isr)


ALL_HOLD_T = [node(n, ("t", T, 0)) for n in (1, 2, 3)]


def test_saved_metadata_comes_back_with_every_partition_in_doubt() -> None:
    result = rebuilt(ALL_HOLD_T, saved(50, {"t": (T, [state(1, 2, 3)])}, producer_ids=6000))
    image = image_of(result)
    assert (image.cluster_id, image.feature_level, image.topics["t"].topic_id) == ("c", 2, T)
    assert image.finalized_features == {"transaction.version": 1}
    assert image.overrides("topic", "t") == {"retention.ms": "77"}
    assert image.overrides("broker", "") == {"num.partitions": "5"}
    assert image.overrides("group", "g") == {"consumer.session.timeout.ms": "50000"}
    assert list(image.acls) == [ACL]
    assert image.client_quotas == {QuotaEntity("u"): {"producer_byte_rate": 1024.0}}
    assert image.nodes[2] == NodeRecord(2, ("d2",), "rack-2")
    assert image.next_producer_id == 6000 + PRODUCER_IDS_SKIPPED
    found = partition(result, T)
    assert (found.leader, found.leader_epoch, replicas(found), asked(found)) == (-1, 4 + EPOCHS_SKIPPED, [1, 2, 3], [1, 2, 3])
    assert result.notes == ()


def test_the_newest_file_is_the_base_whoever_has_it() -> None:
    files = [saved(50, {}, name="old"), saved(60, {"t": (T, [state(1, 2, 3)])}, name="new"), saved(55, {}, name="older")]
    result = rebuilt(ALL_HOLD_T, *files)
    assert result.base is files[1]
    assert list(image_of(result).topics) == ["t"]


def test_epochs_rise_above_those_of_the_disks() -> None:
    nodes = [node(1, ("t", T, 0)), node(2, ("t", T, 0), epoch=9000), node(3, ("t", T, 0))]
    assert partition(rebuilt(nodes, saved(50, {"t": (T, [state(1, 2, 3)])})), T).leader_epoch == 9000 + EPOCHS_SKIPPED


def test_a_topic_that_no_file_knows_is_made_from_its_directories() -> None:
    held = [("new", NEW, 0), ("new", NEW, 1), ("t", T, 0)]
    nodes = [node(1, *held), node(2, *held), node(3, ("t", T, 0), ("new", NEW, 2))]
    result = rebuilt(nodes, saved(50, {"t": (T, [state(1, 2, 3)])}))
    image = image_of(result)
    assert image.topics["new"] == Topic("new", NEW, 3)
    assert image.overrides("topic", "new") == {}
    assert [replicas(partition(result, NEW, index)) for index in range(3)] == [[1, 2], [2, 1], [3]]
    assert [asked(partition(result, NEW, index)) for index in range(3)] == [[1, 2], [1, 2], [3]]
    assert partition(result, NEW, 0).replicas == (Replica(1, "d1"), Replica(2, "d2"))
    assert any("topic new is newer" in note for note in result.notes)


def test_without_any_file_all_topics_are_made_from_directories() -> None:
    groups = ("__consumer_offsets", U, 1)
    result = rebuilt([replace(node(1, ("t", T, 0), groups), highest_producer_id=4711), node(2, groups)])
    image = image_of(result)
    assert (image.cluster_id, image.feature_level, sorted(image.topics)) == ("c", 1, ["__consumer_offsets", "t"])
    assert image.topics["__consumer_offsets"].internal
    configs = image.overrides("topic", "__consumer_offsets")
    assert (configs["cleanup.policy"], configs["durability"]) == ("compact", "synced")
    assert image.next_producer_id == 4712 + PRODUCER_IDS_SKIPPED
    assert image.nodes[1].log_dirs == ("d1",)
    assert any("no saved metadata was found" in note for note in result.notes)
    gap = partition(result, U, 0)
    assert replicas(gap) == [1, 2], "nobody holds it, so it is made where the others are"
    assert any("__consumer_offsets-0 is held by no node" in note for note in result.notes)


def test_partitions_that_were_added_later_are_there() -> None:
    nodes = [node(n, ("t", T, 0), ("t", T, 1)) for n in (1, 2)]
    result = rebuilt(nodes, saved(50, {"t": (T, [state(1, 2)])}))
    assert image_of(result).topics["t"].partitions == 2
    assert asked(partition(result, T, 1)) == [1, 2]
    assert image_of(result).overrides("topic", "t") == {"retention.ms": "77"}


def test_a_topic_that_was_deleted_since_is_not_revived_unless_a_disk_was_not_read() -> None:
    nodes = [node(1, deleted=((T, 0),)), node(2, deleted=((T, 0),)), node(3)]
    for unread in (nodes[:2], [*nodes[:2], replace(node(3), directories=("another",))]):
        assert list(image_of(rebuilt(unread, saved(50, {"t": (T, [state(1, 2, 3)])}))).topics) == ["t"]
    result = rebuilt(nodes, saved(50, {"t": (T, [state(1, 2, 3)])}))
    assert image_of(result).topics == {}
    assert image_of(result).partition_table == {}
    assert image_of(result).overrides("topic", "t") == {}
    assert any("topic t was deleted" in note for note in result.notes)


def test_a_topic_that_only_an_older_file_knows_was_deleted_while_a_node_was_down() -> None:
    older, newest = saved(50, {"t": (T, [state(1, 2, 3)])}), saved(60, {})
    assert image_of(rebuilt([node(1), node(2), node(3, ("t", T, 0))], older, newest)).topics == {}


def test_the_rest_of_a_new_topic_is_there_though_a_node_removed_its_part() -> None:
    """The part may have moved. Nobody knows, and a topic too many harms less than records that are gone."""
    nodes = [node(1, ("new", NEW, 0)), node(2, deleted=((NEW, 0),))]
    result = rebuilt(nodes, saved(50, {}))
    assert asked(partition(result, NEW)) == [1]
    assert any("perhaps about to be deleted" in note for note in result.notes)


def test_a_topic_of_which_nothing_is_held_and_nothing_was_deleted_stays() -> None:
    result = rebuilt([node(1), node(2), node(3)], saved(50, {"t": (T, [state(1, 2, 3)])}))
    assert asked(partition(result, T)) == [1, 2, 3]
    assert any("t-0 is held by none of its replicas" in note for note in result.notes)


@pytest.mark.parametrize(("written_ms", "expected"), [(20, NEW), (5, T)], ids=["made again since", "left from long ago"])
def test_of_two_topics_with_one_name_the_later_one_is_there(written_ms: int, expected: str) -> None:
    nodes = [node(1, ("t", NEW, 0), written_ms=written_ms), node(2, ("t", T, 0), written_ms=10)]
    result = rebuilt(nodes, saved(50, {"t": (T, [state(1, 2)])}))
    assert {name: topic.topic_id for name, topic in image_of(result).topics.items()} == {"t": expected}
    assert {topic_id.hex() for topic_id in image_of(result).partition_table} == {expected}
    assert image_of(result).overrides("topic", "t") == ({"retention.ms": "77"} if expected == T else {})
    assert any("two ids" in note for note in result.notes)


def test_a_replica_whose_directory_is_gone_stays_one_and_is_not_asked() -> None:
    """It would make an empty log, and answer that it holds nothing, which is true."""
    found = partition(rebuilt([node(1, ("t", T, 0)), node(2), node(3)], saved(50, {"t": (T, [state(1, 2, 3)])})), T)
    assert (replicas(found), asked(found)) == ([1, 2, 3], [1])


def test_a_replica_that_was_not_read_is_waited_for() -> None:
    result = rebuilt([node(1, ("t", T, 0))], saved(50, {"t": (T, [state(1, 2)])}))
    assert asked(partition(result, T)) == [1, 2]
    assert "node 2 was not read" in " ".join(result.notes)


def test_a_replica_in_a_directory_that_failed_is_waited_for() -> None:
    failed = replace(node(2), directories=("another",))
    found = partition(rebuilt([node(1, ("t", T, 0)), failed], saved(50, {"t": (T, [state(1, 2)])})), T)
    assert asked(found) == [1, 2]


def test_a_move_that_ended_since_is_carried_on_by_the_nodes_that_hold_the_partition() -> None:
    """The former replicas have deleted it. If they were asked, their empty logs would lead."""
    moving = state(4, 5, 1, 2, adding=(4, 5), removing=(1, 2))
    nodes = [node(n, deleted=((T, 0),)) for n in (1, 2)] + [node(n, ("t", T, 0)) for n in (4, 5)]
    found = partition(rebuilt(nodes, saved(50, {"t": (T, [moving])})), T)
    assert (replicas(found), asked(found)) == ([4, 5, 1, 2], [4, 5])
    assert (found.adding, found.removing) == ((4, 5), (1, 2))


def test_a_holder_that_no_file_names_is_a_replica() -> None:
    found = partition(rebuilt([node(1, ("t", T, 0)), node(4, ("t", T, 0))], saved(50, {"t": (T, [state(1)])})), T)
    assert found.replicas == (Replica(1, "d1"), Replica(4, "d4"))
    assert asked(found) == [1, 4]


def test_replicas_that_hold_nothing_go_where_others_make_up_their_number() -> None:
    """The partition moved since the metadata was saved."""
    nodes = [node(1), node(2), *[node(n, ("t", T, 0)) for n in (3, 4, 5)]]
    found = partition(rebuilt(nodes, saved(50, {"t": (T, [state(1, 2, 3)])})), T)
    assert (replicas(found), asked(found)) == ([3, 4, 5], [3, 4, 5])


def test_a_holder_that_an_older_file_names_was_removed_unless_nobody_else_holds_the_partition() -> None:
    files = [saved(50, {"t": (T, [state(1, 3)])}), saved(60, {"t": (T, [state(1, 2)])})]
    result = rebuilt([node(1, ("t", T, 0)), node(2, ("t", T, 0)), node(3, ("t", T, 0))], *files)
    assert (replicas(partition(result, T)), asked(partition(result, T))) == ([1, 2], [1, 2])
    assert "moved away from nodes 3" in " ".join(result.notes)
    alone = rebuilt([node(1), node(2), node(3, ("t", T, 0))], *files)
    assert asked(partition(alone, T)) == [3]


def test_of_a_log_that_moved_between_directories_the_one_with_more_moves_counts() -> None:
    held = (HeldPartition("t", 0, T, "d1", moves=2), HeldPartition("t", 0, T, "e1", moves=3))
    two = NodeHoldings(1, "c", ("d1", "e1"), held)
    assert partition(rebuilt([two], saved(50, {"t": (T, [state(1)])})), T).replicas == (Replica(1, "e1"),)


def test_a_directory_without_an_id_counts_for_the_topic_of_its_name() -> None:
    nameless = NodeHoldings(1, "c", ("d1",), (HeldPartition("t", 0, "", "d1"), HeldPartition("unknown", 0, "", "d1")))
    result = rebuilt([nameless, node(2)], saved(50, {"t": (T, [state(1, 2)])}))
    assert asked(partition(result, T)) == [1]
    assert list(image_of(result).topics) == ["t"]


def test_data_of_several_clusters_is_refused_and_so_is_none_at_all() -> None:
    with pytest.raises(CannotRebuild, match="several clusters"):
        rebuilt([node(1), replace(node(2), cluster_id="another")])
    with pytest.raises(CannotRebuild, match="several clusters"):
        rebuilt([replace(node(2), cluster_id="another")], saved(50, {}))
    with pytest.raises(CannotRebuild, match="no storage node"):
        rebuilt([])


def test_holdings_come_back_from_the_text_in_which_they_travel() -> None:
    holdings = replace(node(1, ("t", T, 0), deleted=((U, 1),)), saved_image='{"a":\n"b"}', problems=("p",))
    assert decode(NodeHoldings, encode(holdings)) == holdings


def test_a_second_rebuild_without_saved_metadata_gives_owner_epochs_above_those_in_the_logs() -> None:
    """Leaders refuse the marker of a lower owner epoch: no transaction would end."""
    held = ("__transaction_state", T, 0)
    first = partition(rebuilt([node(1, held)]), T).owner_epoch
    assert first == UNKNOWN_OWNER_EPOCH + EPOCHS_SKIPPED
    written = first + 7  # by its owners since
    again = [replace(node(1, held), highest_owner_epoch=5), replace(node(2, held), highest_owner_epoch=written)]
    assert partition(rebuilt(again), T).owner_epoch == written + EPOCHS_SKIPPED


def test_an_older_backup_gives_owner_epochs_above_those_in_the_logs() -> None:
    owned = replace(state(1, 2, 3), owner_epoch=4)
    nodes = [replace(each, highest_owner_epoch=9000) for each in ALL_HOLD_T]
    topics = {"t": (T, [owned])}
    assert partition(rebuilt(nodes, saved(50, topics)), T).owner_epoch == 9000 + EPOCHS_SKIPPED
    assert partition(rebuilt(ALL_HOLD_T, saved(50, topics)), T).owner_epoch == 4 + EPOCHS_SKIPPED
    assert partition(rebuilt(nodes, saved(50, {"t": (T, [state(1, 2, 3)])})), T).owner_epoch == 0, "it has no owner"
