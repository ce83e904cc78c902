"""Answer InitProducerId."""

from coordinator.clock import Moment
from coordinator.core.core import Core
from protocol.errors import ErrorCode
from protocol.messages.data import InitProducerId, InitProducerIdReply
from protocol.session import RequestRef

_NONE = -1


def init_producer_id(core: Core, ref: RequestRef, message: InitProducerId, moment: Moment) -> None:
    """Return an unused producer id, with epoch 0. A producer that names its id wants a clean start (KIP-360), and gets
    another one, as in Kafka without a transactional id. Nothing need be durable: ids are drawn at random, not counted.
    """
    refused = _refuse(message)
    if refused:
        core.outbox.send(ref, InitProducerIdReply(refused))
    else:
        core.outbox.send(ref, InitProducerIdReply(producer_id=core.producer_ids.producer_id(), producer_epoch=0))


def _refuse(message: InitProducerId) -> ErrorCode:
    if message.transactional_id == "" or (message.producer_id == _NONE) != (message.producer_epoch == _NONE):
        return ErrorCode.INVALID_REQUEST
    if message.transactional_id is not None:
        # No transaction coordinator exists here. Its own errors make clients ask again for ever; this one ends Java's,
        # and librdkafka's have already failed at FindCoordinator.
        return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.NONE
