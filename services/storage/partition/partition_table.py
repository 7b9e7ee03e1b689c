"""The partitions of this node by topic id, and the refusal for each one that it cannot serve."""

from libs.cluster.image import ClusterImage
from libs.wire.errors import ErrorCode
from services.storage.core.admission import Refusal
from services.storage.core.leadership import hosts
from services.storage.hosted import Hosted, Key


class Partitions:
    """What this node hosts. Only whoever follows the image adds and removes; requests look up."""

    __slots__ = ("broken", "by_key", "image", "incarnation", "node_id")

    def __init__(self, node_id: int, incarnation: int) -> None:
        self.node_id = node_id
        self.incarnation = incarnation
        self.image = ClusterImage()
        self.by_key: dict[Key, Hosted] = {}
        self.broken: set[Key] = set()
        """Partitions whose log could not be opened."""

    def serving(self, key: Key) -> Hosted | Refusal:
        """The partition if this node leads it and its disk works, else why not."""
        hosted = self.by_key.get(key)
        if hosted is not None:
            if hosted.offline:
                return _OFFLINE
            if hosted.leading:
                return hosted
        return self._refuse(key)

    def will_lead(self, key: Key, leader_epoch: int, revision: int) -> bool:
        """Whether this node is behind a caller that takes it for the leader in this epoch, as its image at `revision` has it.

        Behind in what it has heard (then it may turn out to lead, or not), or in what is done: the log is being opened, or
        the state names this node by an earlier incarnation, and the election that its restart costs is yet to come.
        """
        hosted = self.by_key.get(key)
        if hosted is not None and hosted.leading:
            return leader_epoch > hosted.leader_epoch
        if revision > self.image.revision:
            return True
        topic, state = self.image.topics_by_id.get(key[0]), self.image.partition(*key)
        if topic is None or key[1] >= topic.partitions or state is None or key in self.broken:
            return False
        return state.leader == self.node_id and state.leader_incarnation <= self.incarnation

    def debug(self) -> object:
        return {
            str(hosted): {
                "leading": hosted.leading,
                "leader_epoch": hosted.leader_epoch,
                "log_start": hosted.log_start_offset,
                "high_watermark": hosted.high_watermark,
                "durable": hosted.log.durable_offset,
                "log_end": hosted.log_end_offset,
                "parked_produces": len(hosted.parked),
                "offline": hosted.offline,
            }
            for hosted in self.by_key.values()
        }

    def _refuse(self, key: Key) -> Refusal:
        topic_id, index = key
        topic = self.image.topics_by_id.get(topic_id)
        if topic is None:
            return Refusal(int(ErrorCode.UNKNOWN_TOPIC_ID))
        if not 0 <= index < topic.partitions:
            return Refusal(int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        state = self.image.partition(topic_id, index)
        if state is None:
            return Refusal(int(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        if key in self.broken and hosts(state, self.node_id):
            return _OFFLINE
        # Named as leader and not leading yet: it is being opened, or the state names an older incarnation. No hint helps.
        leader = -1 if state.leader == self.node_id else state.leader
        return Refusal(int(ErrorCode.NOT_LEADER_OR_FOLLOWER), None, leader, state.leader_epoch)


_OFFLINE = Refusal(int(ErrorCode.KAFKA_STORAGE_ERROR), "the log directory of this partition is offline")
