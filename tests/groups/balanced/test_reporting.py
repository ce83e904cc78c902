"""Reports of members, their replies, and views for operators
(docs/spec/client-balanced-groups.md#9, #13, #14, #15.5): raw requests against a node."""

from typing import Any

from coordinator.groups.client_balanced.meta import digest_of, with_meta
from coordinator.groups.client_balanced.reporting import is_plain
from coordinator.handlers.client_balanced_topics import as_of, partition_states, shape_of
from coordinator.records.records import BalancedMetadata
from protocol.errors import ErrorCode
from protocol.messages.balanced import (
    AcceptedGroup,
    ConsumeFromMax,
    ConsumeFromMaxReply,
    DescribeBalanced,
    DescribeBalancedReply,
    LostKey,
    MemberHeartbeat,
    OwnedKey,
    PartitionsChanged,
    PartitionsLost,
    PartitionState,
    ReleasedKey,
)
from protocol.messages.groups import JoinGroup, JoinProtocol, ListNotes, ListNotesReply
from protocol.messages.topics import (
    CreatePartitions,
    DeletableTopic,
    DeleteTopics,
    GrowingTopic,
)
from tests.groups.balanced.group_rig import SESSION_MS, GroupRig, RigClient
from tests.groups.checks import balanced_of

NONE = ErrorCode.NONE


def owned(*partitions: int, epoch: int = 1) -> tuple[OwnedKey, ...]:
    return tuple(OwnedKey(f"1:demo:{number}", epoch) for number in partitions)


def keys(rig: GroupRig, consumer_id: str) -> tuple[str, ...]:
    (member,) = [one for one in rig.view().members if one.consumer_id == consumer_id]
    return member.keys


# --- reports ---


def test_cb48_while_a_node_is_down_its_share_is_nobodys_and_what_waits_there_is_seen() -> None:
    rig = GroupRig(3)
    clients = [rig.started(f"m{n}", source_count=3, node_id=n, consume_position="first") for n in range(3)]
    for number, client in enumerate(clients):
        client.register(number)
        client.confirm(number, 0)
    for _ in range(60):
        rig.node_rig.wait(10_000)
        clients[0].beat()
        clients[2].beat()
    rig.produce(1, 100)
    shown = {one.key: (one.owner, one.lag) for one in rig.view().partitions}
    assert shown == {"1:demo:0": ("m0", 0), "1:demo:1": (None, 100), "1:demo:2": ("m2", 0)}


def test_cb49_a_report_is_shown_after_the_next_heartbeat_and_ownership_at_once() -> None:
    rig = GroupRig()
    client = rig.started("a")
    for number in range(3):
        client.register(number)
    client.beat(owned=owned(0, 1, 2), owned_version=3)
    client.unregister(1)
    (member,) = rig.view().members
    assert member.keys == ("1:demo:0", "1:demo:2")
    assert member.reported is not None and len(member.reported) == 3
    assert member.claimed_mismatch == ("1:demo:1",)
    client.beat(owned=owned(0, 2), owned_version=4)
    (member,) = rig.view().members
    assert member.reported is not None and len(member.reported) == 2 and not member.claimed_mismatch


def test_cb50_a_heartbeat_without_a_list_leaves_the_last_report_as_it_was() -> None:
    rig = GroupRig()
    client = rig.started("a")
    client.register(0)
    client.beat(owned=owned(0), owned_version=1)
    group = balanced_of(rig.node_rig.node.core)
    before = rig.node_rig.store.position
    for _ in range(60):
        rig.node_rig.wait(10_000)
        assert is_plain(group, MemberHeartbeat("g", "a", client.epoch, 1, meta_version=client.meta_version))
        assert client.beat(owned_version=1).error_code is NONE
    assert rig.view().members[0].reported == owned(0)
    assert rig.node_rig.store.position == before, "heartbeats write nothing"
    client.beat(owned=(), owned_version=2)
    assert rig.view().members[0].reported == ()


def test_who_claims_what_is_not_its_own_is_told_what_it_lost() -> None:
    rig = GroupRig()
    one, other = rig.started("a"), rig.started("b")
    one.register(0)
    other.register(1)
    told = one.beat(owned=(*owned(0, 1, 2), OwnedKey("1:demo:0", 9), OwnedKey("nonsense", 1)), owned_version=2)
    assert told.lost == (
        LostKey("1:demo:1", ErrorCode.DUPLICATE_PARTITION),
        LostKey("1:demo:2", ErrorCode.NO_NODE),
        LostKey("1:demo:0", ErrorCode.DUPLICATE_PARTITION),
        LostKey("nonsense", ErrorCode.NOT_FOUND),
    )


def test_what_an_unanswered_release_gave_up_is_given_up_with_the_next_heartbeat() -> None:
    rig = GroupRig()
    rig.produce(0, 3)
    client = rig.started("a", consume_position="first")
    client.register(0)
    client.read(0)
    released = (ReleasedKey("1:demo:0", 1, True), ReleasedKey("1:demo:1", 1, True))
    assert client.beat(released=released).error_code is NONE
    assert (rig.committed(0), rig.owners()["1:demo:0"]) == (3, None)


def test_cb51_who_leaves_is_listed_no_more_and_its_partitions_are_free_at_once() -> None:
    rig = GroupRig()
    one, other = rig.started("a"), rig.started("b")
    one.register(0)
    one.leave()
    assert [member.consumer_id for member in rig.view().members] == ["b"]
    assert other.register(0).error_code is NONE


def test_cb52_no_picture_shows_a_partition_under_two_nodes() -> None:
    rig = GroupRig(10)
    clients = [rig.started(f"m{number}") for number in range(50)]
    for turn in range(300):
        client = clients[(turn * 7) % 50]
        if turn % 3:
            client.register(turn % 10)
        else:
            client.unregister(turn % 10)
        view = rig.view()
        named = [key for member in view.members for key in member.keys]
        assert len(named) == len(set(named))
        by_partition = {one.key: one.owner for one in view.partitions if one.owner is not None}
        assert by_partition == {key: member.consumer_id for member in view.members for key in member.keys}


def test_cb53_after_a_restart_nobody_has_lost_a_partition_and_no_epoch_goes_back() -> None:
    rig = GroupRig()
    clients = [rig.started(name, consume_position="first") for name in ("a", "b", "c")]
    for number, client in enumerate(clients):
        client.register(number)
        client.unregister(number)
        client.register(number)
    rig.produce(0, 5)
    clients[0].confirm(0, 2)
    rig.node_rig.wait(SESSION_MS - 5_000)
    rig.restart()
    assert list(rig.owners().values()) == ["a", "b", "c", None]
    assert [one.reg_epoch for one in rig.view().partitions] == [2, 2, 2, -1]
    for client in clients:
        client.connection = rig.connection()
    assert clients[0].read(0) == [2, 3, 4]
    fourth = rig.started("d")
    assert fourth.register(0).error_code is ErrorCode.PARTITION_OCCUPIED
    rig.node_rig.wait(SESSION_MS - 1)
    assert fourth.beat().error_code is NONE
    assert clients[0].beat(owned=owned(0, epoch=2), owned_version=1).lost == ()
    assert fourth.register(1).error_code is ErrorCode.PARTITION_OCCUPIED
    rig.node_rig.wait(1)
    assert fourth.register(1).reg_epoch == 3
    assert keys(rig, "a") == ("1:demo:0",)


def test_where_a_grant_began_is_known_after_a_restart_though_nothing_was_committed() -> None:
    rig = GroupRig()
    rig.produce(0, 5)
    client = rig.started("a")
    assert client.register(0).position == 5
    rig.produce(0, 2)
    rig.restart()
    client.connection = rig.connection()
    assert client.read(0) == [5, 6]


def test_a_clean_stop_and_start_keep_members_and_grants() -> None:
    rig = GroupRig()
    client = rig.started("a", instance_id="i", filters={"demo": ("f",)})
    client.register(0)
    before = rig.view()
    rig.stop()
    assert rig.view() == before
    client.connection = rig.connection()
    assert client.beat().error_code is NONE


def test_cb54_who_is_back_before_its_lease_is_over_keeps_what_it_has() -> None:
    rig = GroupRig()
    one, other = rig.started("a"), rig.started("b")
    one.register(0)
    rig.node_rig.wait(15_000)
    other.beat()
    rig.node_rig.wait(SESSION_MS - 2_000 - 15_000)
    assert one.beat(owned=owned(0), owned_version=1).lost == ()
    rig.node_rig.wait(2_500)
    other.beat()
    assert other.register(0).error_code is ErrorCode.PARTITION_OCCUPIED
    assert one.fetch(0).error_code is ErrorCode.NOT_FOUND


# --- what is configured ---


def test_the_full_set_is_told_once_and_then_only_when_it_changes() -> None:
    rig = GroupRig(2)
    client = rig.started("a")
    told = client.meta()
    assert told.meta == (PartitionState("1:demo:0", True), PartitionState("1:demo:1", True))
    assert client.meta(told.meta_version).meta is None
    assert client.beat().meta is None
    assert client.beat(meta_version=-1).meta == told.meta


def test_a_topic_that_grows_has_a_new_version_which_members_hear_of_at_once() -> None:
    rig = GroupRig(2)
    client = rig.started("a")
    rig.node_rig.ask_inside(CreatePartitions((GrowingTopic("demo", 3),)))
    assert client.told() == [PartitionsChanged("g", ("demo",))]
    told = client.beat()
    assert told.meta_version == 2 and told.meta is not None and len(told.meta) == 3
    rig.node_rig.make_topic("other", 1)
    assert client.told() == []
    assert client.beat().meta_version == 2


def test_partitions_of_a_deleted_topic_are_owned_by_nobody_and_the_set_is_empty() -> None:
    rig = GroupRig(2)
    client = rig.started("a")
    client.register(0)
    rig.node_rig.ask_inside(DeleteTopics((DeletableTopic("demo"),)))
    lost = PartitionsLost("g", "a", ("1:demo:0",), "partitions gone")
    assert client.told() == [PartitionsChanged("g", ("demo",)), lost]
    told = client.beat()
    assert told.meta == () and told.lost == (LostKey("1:demo:0", ErrorCode.NOT_FOUND),)
    assert client.beat().lost == told.lost  # until it reports that it has dropped it
    assert client.beat(owned=(), owned_version=2).lost == ()
    assert client.confirm(0, 0).error_code is ErrorCode.NOT_OWNER_COMMIT


def test_the_version_changes_with_the_content_and_only_with_it() -> None:
    states = (PartitionState("1:t:0", True), PartitionState("1:t:1", False, "down"))
    first = with_meta(BalancedMetadata("g", 0), states)
    assert (first.meta_version, first.meta_digest) == (1, digest_of(states))
    assert with_meta(first, states) is first
    assert with_meta(first, states[:1]).meta_version == 2
    assert digest_of(states) != digest_of((states[0], PartitionState("1:t:1", False, "up")))


def test_a_partition_whose_log_is_damaged_is_configured_and_cannot_be_read() -> None:
    rig = GroupRig(2)
    rig.node_rig.store._files.damaged["demo-1"] = "demo-1 is damaged"
    states = partition_states(rig.node_rig.node.core, "g", ("demo", "nowhere"))
    assert [(one.key, one.subscribable) for one in states] == [("1:demo:0", True), ("1:demo:1", False)]


def test_topics_of_others_are_no_reason_to_look_at_ones_own_again() -> None:
    rig = GroupRig(2)
    rig.started("a").beat()
    group = balanced_of(rig.node_rig.node.core)
    rig.node_rig.ask_inside(CreatePartitions((GrowingTopic("demo", 3),)))
    before, version = group.meta, group.on_record.meta_version
    rig.node_rig.make_topic("other", 1)
    assert group.meta is before and group.meta_as_of == as_of(rig.node_rig.node.core)
    assert shape_of(rig.node_rig.node.core, "g", ("demo", "other", "nowhere")) == (3, -1, 1, 0, 0, 0, 0)
    rig.node_rig.ask_inside(CreatePartitions((GrowingTopic("demo", 4),)))
    assert (len(group.meta), group.on_record.meta_version) == (4, version + 1)


def test_a_log_that_is_found_damaged_is_told_of_within_a_minute() -> None:
    rig = GroupRig(2)
    client = rig.started("a", session_timeout_ms=300_000)
    rig.node_rig.store._files.damaged["demo-1"] = "demo-1 is damaged"
    rig.node_rig.wait(60_000)
    told = client.beat()
    assert told.meta is not None and [one.subscribable for one in told.meta] == [True, False]


# --- operators ---


def ask(rig: GroupRig, *groups: str) -> ConsumeFromMaxReply:
    reply = rig.node_rig.ask_inside(ConsumeFromMax(groups, "operator"))
    assert isinstance(reply, ConsumeFromMaxReply)
    return reply


def test_cb58_members_are_told_once_to_go_to_the_end_and_other_groups_are_refused() -> None:
    rig = GroupRig(group_initial_rebalance_delay_ms=0)
    client = rig.started("a")
    classic = JoinGroup(
        "c", SESSION_MS, protocol_type="consumer", protocols=(JoinProtocol("r"),), wants_member_id_first=False
    )
    rig.node_rig.ask(rig.connection(), classic)
    rig.started("b", group_id="left").leave()
    rig.started("s", group_id="server", mode="server")
    reply = ask(rig, "g", "c", "nobody", "left", "server")
    assert reply.accepted == (AcceptedGroup("g", 1),)
    assert [(one.group_id, one.error_code) for one in reply.refused] == [
        ("c", ErrorCode.INCONSISTENT_MODE),
        ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
        ("left", ErrorCode.NO_NODE),
        ("server", ErrorCode.INCONSISTENT_MODE),
    ]
    later = rig.started("later")
    assert later.beat().from_max_id == 0
    assert client.beat().from_max_id == 1
    rig.produce(0, 9)
    client.register(0, 9)
    assert (rig.committed(0), client.beat(ops_ack=1).from_max_id) == (9, 0)
    rig.restart()
    for one, wanted in ((client, 1), (later, 0)):
        one.connection = rig.connection()
        assert one.beat().from_max_id == wanted


def test_cb59_lag_is_the_end_less_what_is_committed_and_unknown_is_not_zero() -> None:
    rig = GroupRig()
    rig.produce(0, 100)
    rig.produce(1, 30)
    client = rig.started("a", consume_position="first")
    client.register(0)
    client.confirm(0, 40)
    first, second = rig.view().partitions[:2]
    assert (first.committed, first.end, first.lag) == (40, 100, 60)
    assert (second.committed, second.end, second.lag) == (-1, 30, 30)  # all there is, without a commit
    reply = rig.node_rig.ask_inside(DescribeBalanced(("g",), with_lag=False))
    assert isinstance(reply, DescribeBalancedReply)
    assert (reply.groups[0].partitions[0].lag, reply.groups[0].partitions[0].end) == (None, -1)


def test_all_groups_that_are_online_are_shown_to_who_names_none() -> None:
    rig = GroupRig()
    rig.started("a", group_id="two")
    rig.started("b", group_id="one")
    rig.started("c", group_id="three").leave()
    reply = rig.node_rig.ask_inside(DescribeBalanced())
    assert isinstance(reply, DescribeBalancedReply)
    assert [one.group_id for one in reply.groups] == ["one", "two"]


def test_the_journal_tells_who_came_went_was_replaced_and_what_was_lost() -> None:
    rig = GroupRig(2)
    client: RigClient = rig.started("a", source_count=2, node_id=0, instance_id="i")
    client.register(0)
    rig.started("b", source_count=2, node_id=0, instance_id="i")
    leaver = rig.started("c", source_count=2, node_id=1)
    ask(rig, "g")
    leaver.register(0)
    rig.node_rig.ask_inside(DeleteTopics((DeletableTopic("demo"),)))
    leaver.leave()
    rig.node_rig.wait(SESSION_MS)
    reply: Any = rig.node_rig.ask_inside(ListNotes("g"))
    assert isinstance(reply, ListNotesReply)
    assert [(one.kind, one.cause, one.initiator) for one in reply.notes] == [
        ("member", "member joined", "a"),
        ("member", "member replaced", "b"),
        ("member", "member joined", "c"),
        ("admin", "told to consume from the end", "HTTP"),
        ("member", "partitions gone", "c"),
        ("member", "member left", "c"),
        ("member", "lease over", "b"),
    ]
    assert reply.notes[0].detail == "(unnamed) at 10.0.0.1, node 0 of 2"


def test_the_journal_says_where_an_order_came_from_whatever_it_calls_itself() -> None:
    rig = GroupRig(1)
    rig.started("a", consume_position="first")
    (reply,) = rig.node_rig.ask(rig.connection(), ConsumeFromMax(("g",), "the operator"))
    assert isinstance(reply, ConsumeFromMaxReply)
    notes: Any = rig.node_rig.ask_inside(ListNotes("g"))
    assert (notes.notes[-1].initiator, notes.notes[-1].detail) == (
        "(unnamed) at 10.0.0.1",
        "0 partitions are owned; remark: the operator",
    )
