from coordinator.node.events import Woke
from coordinator.node.unloading import unload
from coordinator.runtime.shard import ShardState
from protocol.errors import ErrorCode
from protocol.messages.groups import JoinGroup, JoinGroupReply, JoinProtocol
from tests.node.node_rig import NodeRig


def test_a_join_that_waits_is_sent_elsewhere_and_no_shard_serves_any_more() -> None:
    rig = NodeRig(group_initial_rebalance_delay_ms=5_000)
    rig.connect(1)
    join = JoinGroup("g", 10_000, protocol_type="consumer", protocols=(JoinProtocol("r"),), wants_member_id_first=False)
    assert rig.ask(1, join) == []

    unload(rig.node.core, rig._moment())
    rig.step(Woke())

    reply, _moved = rig.heard(1)
    assert isinstance(reply, JoinGroupReply)
    assert reply.error_code is ErrorCode.NOT_COORDINATOR
    assert {shard.state for shard in rig.node.core.shards} == {ShardState.UNLOADED}
