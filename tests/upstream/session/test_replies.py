"""A broker's answers with our addresses in place of its own: what is not an address stays as it was said."""

import pytest

from coordinator.gateway.session.apis import FIND_COORDINATOR
from coordinator.gateway.session.replies import reply_rewriter
from protocol.errors import ErrorCode
from protocol.messages.node import FindCoordinatorReply, FoundCoordinator
from tests.upstream.session.frames import HERE, told


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("node_id", [-1, 1, 9])
def test_why_a_transaction_has_no_coordinator_is_told_as_the_broker_said_it(version: int, node_id: int) -> None:
    refused = FoundCoordinator(
        "tx", node_id, "hidden", 9092, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "not yours"
    )
    rewriter = reply_rewriter(FIND_COORDINATOR, version)
    out, _said = rewriter.rewrite(told(FIND_COORDINATOR, version, 7, FindCoordinatorReply((refused,))), 7, HERE)
    seen = rewriter.decode(out)
    assert isinstance(seen, FindCoordinatorReply)
    (one,) = seen.coordinators
    assert (one.error_code, one.node_id, one.host, one.port) == (refused.error_code, -1, "", -1)
    assert one.error_message == (refused.error_message if version else None)
