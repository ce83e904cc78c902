"""Answer DescribeTopicPartitions (KIP-966)."""

from collections.abc import Callable
from functools import partial

from coordinator.accounts.permission import TOPIC
from coordinator.clock import Moment
from coordinator.core.core import Core
from protocol.messages.acls import AclOperation
from protocol.messages.topics import DescribeTopicPartitions
from protocol.session import RequestRef


def describe_topic_partitions(core: Core, ref: RequestRef, message: DescribeTopicPartitions, moment: Moment) -> None:
    """Describe topics in pages. A topic that the client may not describe is on no page, and is no page's cursor."""
    permits = core.access_of(ref).permits
    sees = partial(_sees, permits) if core.accounts.authorizer.is_on and not message.topics else None
    core.outbox.hold(core.embedded.position, ref, core.embedded.describe_partitions(message, sees))


def _sees(permits: Callable[[str, str, AclOperation], bool], topic: str) -> bool:
    return permits(TOPIC, topic, AclOperation.DESCRIBE)
