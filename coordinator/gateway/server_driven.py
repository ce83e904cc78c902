"""Groups that the coordinator balances, in front of a cluster: checks that the cluster's topics are known before a
request is served."""

from collections import Counter
from typing import Final

from coordinator.clock import Moment
from coordinator.core.core import Core
from coordinator.groups.consumer.classic_members.joining import extend_refused_join
from coordinator.groups.consumer.events import ConsumerBeat
from coordinator.groups.consumer.heartbeats import extend_refused
from coordinator.groups.consumer.regexes import needs_resolution
from coordinator.groups.consumer.state import ConsumerGroup
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.consumer_groups import JOINING, ConsumerGroupHeartbeat
from protocol.messages.groups import JoinGroup
from protocol.messages.node import ErrorReply
from protocol.session import RequestRef

_UNKNOWN: Final = "the topics of the cluster are not known yet: no broker has listed them since the start"


def refuse_without_topics(core: Core, ref: RequestRef, message: Message, moment: Moment) -> bool:
    """Refuse a request that may move partitions, while the cluster has not listed its topics; return true if refused.
    Clients continue after this error, and the member stays: without topics no member would get partitions."""
    if isinstance(message, ConsumerGroupHeartbeat):
        if message.member_epoch < JOINING:
            return False
        consumer = _consumer_group(core, message.group_id)
        if consumer is not None and message.member_epoch > JOINING:
            extend_refused(consumer, ConsumerBeat(ref, message, "", ""), moment.monotonic_ms)
    elif isinstance(message, JoinGroup):
        if (consumer := _consumer_group(core, message.group_id)) is None:
            return False
        extend_refused_join(consumer, message.member_id, moment.monotonic_ms)
    else:
        return False
    core.outbox.send(ref, ErrorReply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, _UNKNOWN))
    return True


def _consumer_group(core: Core, group_id: str) -> ConsumerGroup | None:
    group = core.directory.get(group_id)
    return None if group is None else group.serving_consumer


def resolves_patterns(core: Core, message: Message, moment: Moment) -> bool:
    """Return true if the request may begin to match regular expressions with topics."""
    if not isinstance(message, ConsumerGroupHeartbeat) or message.member_epoch < JOINING:
        return False
    consumer = _consumer_group(core, message.group_id)
    added = Counter([message.subscribed_topic_regex] if message.subscribed_topic_regex else [])
    return bool(added) if consumer is None else needs_resolution(consumer, consumer.regexes + added, moment)
