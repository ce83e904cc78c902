"""Answer Fetch: at once, or when there is enough to read.

Records that were read but not yet sent to slow clients fill memory: the more there are, the less one fetch returns,
down to the one batch that every reader needs to proceed.
"""

import msgspec

from coordinator.clock import Moment
from coordinator.core.admission import admit_operation
from coordinator.core.core import Core
from coordinator.groups.ownership import Key
from coordinator.topics.fetch import DelayedFetch, each_once
from protocol.errors import ErrorCode
from protocol.messages.data import Fetch, FetchPartitionReply, FetchReply, FetchTopicReply
from protocol.session import RequestRef

_SHARE = 8
"""Share of the free space that one fetch gets at most: an eighth."""


def fetch(core: Core, ref: RequestRef, message: Fetch, moment: Moment) -> None:
    """Answer with records, at once or when there are enough."""
    message = each_once(message)
    if admit_operation(core):
        answer(core, ref, message)  # answered as at its deadline
        return
    if lost_grants(core, message):
        answer(core, ref, message)
        return
    found = core.embedded.fetch(ref, message, moment, room(core))
    if not isinstance(found, DelayedFetch):
        _send(core, ref, found)
    elif core.fetches.watched + len(found.notified_by) > core.config.max_watched_partitions:
        answer(core, ref, message)
    else:
        core.fetches.add(ref, len(found.notified_by))
        core.purgatory.try_complete_else_watch(found, found.notified_by)


def answer(core: Core, ref: RequestRef, message: Fetch) -> None:
    """Answer with the records there are now."""
    lost = lost_grants(core, message)
    reply = core.embedded.fetch_now(_without(message, lost) if lost else message, room(core))
    if lost:
        refused = tuple(
            FetchTopicReply(topic, (FetchPartitionReply(number, ErrorCode.NOT_OWNER),)) for topic, number in lost
        )
        reply = msgspec.structs.replace(reply, responses=reply.responses + refused)
    _send(core, ref, reply)


def lost_grants(core: Core, message: Fetch) -> dict[Key, None]:
    """Return the grants of the request that no longer hold (docs/spec/consumer-client.md#E2)."""
    if not message.group_id:
        return {}
    group = core.find(message.group_id)[1]
    owners = group.classic.owners if group is not None else None
    return {
        (topic.topic, part.partition): None
        for topic in message.topics
        for part in topic.partitions
        if part.owner_epoch >= 0
        and (
            owners is None or not owners.is_held_by((topic.topic, part.partition), message.member_id, part.owner_epoch)
        )
    }


def _without(message: Fetch, lost: dict[Key, None]) -> Fetch:
    topics = [
        msgspec.structs.replace(
            topic, partitions=tuple([part for part in topic.partitions if (topic.topic, part.partition) not in lost])
        )
        for topic in message.topics
    ]
    return msgspec.structs.replace(message, topics=tuple([topic for topic in topics if topic.partitions]))


def _send(core: Core, ref: RequestRef, reply: FetchReply) -> None:
    size = sum([len(part.records) for topic in reply.responses for part in topic.partitions])
    count_read(core, size)
    core.outbox.send(ref, reply)


def count_read(core: Core, size: int) -> None:
    """Count bytes of records that were read, and wait for a client to take them."""
    core.budget.read(size)
    core.unsent_bytes += size


def room(core: Core) -> int:
    """Return the most bytes that one fetch may get now."""
    return max(core.config.max_total_unsent_bytes - core.unsent_bytes, 0) // _SHARE
