"""Answer DescribeTopicPartitions (KIP-966)."""

from coordinator.clock import Moment
from coordinator.core.core import Core
from protocol.messages.topics import DescribeTopicPartitions
from protocol.session import RequestRef


def describe_topic_partitions(core: Core, ref: RequestRef, message: DescribeTopicPartitions, moment: Moment) -> None:
    """Describe topics in pages."""
    core.outbox.hold(core.embedded.position, ref, core.embedded.describe_partitions(message))
