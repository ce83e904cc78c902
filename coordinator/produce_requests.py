"""Who answers Produce: at once, or when there is room to write ahead.

A producer that is faster than the disk comes to the end of the write-ahead log before its next segment is made. Then
its requests wait, in their order and up to a limit, and its connection with them: an error would only be sent again.
Commits and groups go on in what is left.
"""

from coordinator.core import Core
from coordinator.gates import write_gate
from coordinator.moment import Moment
from protocol.errors import ErrorCode
from protocol.messages.data import Produce, ProducePartitionReply, ProduceReply, ProduceTopicReply
from protocol.session import RequestRef


def produce(core: Core, ref: RequestRef, message: Produce, moment: Moment) -> None:
    """Records in; with acks -1 durable when answered."""
    size = size_of(message)
    others = core.waiting_produces
    if write_gate(core) or others.bytes + size > core.config.max_unflushed_bytes:
        core.outbox.send(ref, _refused(message, ErrorCode.REQUEST_TIMED_OUT))
    elif others.waiting or core.store.should_wait(size):
        others.add(ref, message, size)
    else:
        _append(core, ref, message, moment)


def produce_waiting(core: Core, moment: Moment) -> None:
    """A checkpoint is done, so there may be room again."""
    others = core.waiting_produces
    while others.waiting and not core.store.should_wait(others.waiting[0][2]):
        ref, message = others.take()
        _append(core, ref, message, moment)


def _append(core: Core, ref: RequestRef, message: Produce, moment: Moment) -> None:
    reply, position = core.topics.produce(message, moment)
    core.outbox.hold(position, ref, reply)


def size_of(message: Produce) -> int:
    """Bytes of records."""
    return sum([len(part.records) for topic in message.topic_data for part in topic.partition_data])


def _refused(message: Produce, error: ErrorCode) -> ProduceReply:
    return ProduceReply(
        tuple(
            ProduceTopicReply(
                topic.name,
                tuple(ProducePartitionReply(part.index, error) for part in topic.partition_data),
                topic.topic_id,
            )
            for topic in message.topic_data
        )
    )
