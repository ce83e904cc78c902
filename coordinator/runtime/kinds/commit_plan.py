"""Parts that a member's commits share while it reads the same partitions."""

from collections.abc import Sequence

from coordinator.groups.classic.offsets import STORED
from coordinator.records.commit_template import CommitTemplate
from coordinator.records.records import CommittedOffset
from coordinator.runtime.offset_and_metadata import Committer
from coordinator.runtime.offset_table import TopicCommit
from protocol.messages.offsets import OffsetCommit, OffsetCommitReply, OffsetCommitTopicReply


class CommitPlan:
    """Sender, reply and records of commits like `message`, and their cost. `topics`: those of the message, in its
    order. `permitted`: the access decisions that permitted all of it, with their epoch then."""

    __slots__ = ("committer", "cost", "message", "permitted", "reply", "template", "topics")

    def __init__(self, message: OffsetCommit, committer: Committer, cost: int, topics: Sequence[TopicCommit]) -> None:
        self.message = message
        self.committer = committer
        self.cost = cost
        self.topics = tuple(topics)
        self.permitted: tuple[object, int] = None, 0
        self.template = CommitTemplate(
            [
                CommittedOffset(message.group_id, topic.name, index, 0, epoch, "", 0, topic_id=topic.recorded_id)
                for topic in topics
                for index, epoch in zip(topic.partitions, topic.leader_epochs, strict=True)
            ]
        )
        self.reply = OffsetCommitReply(
            tuple(
                [
                    OffsetCommitTopicReply(
                        topic.name, tuple([STORED[part.partition_index] for part in topic.partitions]), topic.topic_id
                    )
                    for topic in message.topics
                ]
            )
        )
