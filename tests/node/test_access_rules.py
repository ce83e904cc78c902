"""Access rules of the node's own: each API with each kind of rule, and where its refusal stands."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from coordinator.accounts.acls import Acl
from coordinator.accounts.division import divide, merge_reply
from coordinator.accounts.permission import CodeOf
from coordinator.accounts.records import AclRecord
from coordinator.accounts.requests import ACCESS
from coordinator.config.accounts import AuthorizerClass, Principals
from coordinator.config.keys import RebalanceProtocols
from coordinator.handlers.table import APIS, HANDLERS
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.acls import (
    CLUSTER_NAME,
    AclBindingFilter,
    AclCreation,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
    AlterUserScramCredentials,
    CreateAcls,
    DeleteAcls,
    DescribeAcls,
    DescribeUserScramCredentials,
    ScramDeletion,
    ScramUpsertion,
)
from protocol.messages.balanced import FetchItem, FetchRegistered, StartMember
from protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    DescribeConfigs,
    DescribeConfigsResource,
    IncrementalAlterConfigs,
    ResourceType,
)
from protocol.messages.consumer_groups import (
    ConsumerGroupDescribe,
    ConsumerGroupDescribeReply,
    ConsumerGroupHeartbeat,
    DescribedAssignment,
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedTopicPartitions,
)
from protocol.messages.data import (
    EpochPartition,
    EpochTopic,
    Fetch,
    FetchPartition,
    FetchTopic,
    InitProducerId,
    OffsetForLeaderEpoch,
    Produce,
    ProducePartition,
    ProduceTopic,
)
from protocol.messages.groups import (
    DeleteGroups,
    DescribeGroups,
    Heartbeat,
    HoldGroup,
    JoinGroup,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    ListAudit,
    ListGroups,
    ListNotes,
    ListRefusals,
    SyncGroup,
)
from protocol.messages.node import DescribeCluster, DescribeNode, ErrorReply, FindCoordinator
from protocol.messages.offsets import (
    DescribeExpiry,
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsTopic,
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetDelete,
    OffsetDeleteTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchTopic,
    TxnOffsetCommit,
)
from protocol.messages.ownership import DescribeOwnership
from protocol.messages.reports import DrainMembers, ReportMember
from protocol.messages.topics import (
    CreatableTopic,
    CreatePartitions,
    CreateTopics,
    DeletableTopic,
    DeleteTopics,
    DescribeTopicPartitions,
    GrowingTopic,
    Metadata,
    MetadataTopic,
    NamedTopic,
    TopicCursor,
)
from protocol.messages.transactions import AddOffsetsToTxn
from protocol.record_batch import encode_batch
from tests.accounts.rig import NOW
from tests.node.node_rig import NodeRig

NONE = ErrorCode.NONE
GROUP_DENIED, TOPIC_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED
CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
HOST, ME = "10.0.0.1", "User:ANONYMOUS"
OP = AclOperation
GROUP, TOPIC, CLUSTER = AclResourceType.GROUP, AclResourceType.TOPIC, AclResourceType.CLUSTER


def rule(
    kind: AclResourceType,
    operation: AclOperation,
    name: str = "",
    permission: AclPermission = AclPermission.ALLOW,
    pattern: AclPatternType = AclPatternType.LITERAL,
    host: str = "*",
) -> Acl:
    names = {GROUP: "pay", TOPIC: "orders", CLUSTER: CLUSTER_NAME}
    return Acl(kind, name or names[kind], pattern, ME, host, operation, permission)


class AccessRulesRig(NodeRig):
    """A node with an authorizer, whose native clients are anonymous."""

    def __init__(self, *acls: Acl, **settings: Any) -> None:
        super().__init__(**{"authorizer_class_name": AuthorizerClass.STANDARD, **settings})
        make_all = [rule(CLUSTER, OP.ALL), rule(TOPIC, OP.ALL, "*"), rule(GROUP, OP.ALL, "*")]
        self.rule(*make_all)
        self.make_topic("orders", 2)
        self.make_topic("wages", 2)
        self.ask_inside(commit("pay", "orders"))
        self.ask_inside(commit("other", "orders"))
        self.unrule(*make_all)
        self.rule(*acls)
        self.connect(1)

    def rule(self, *acls: Acl) -> None:
        assert not self.node.core.accounts.write([AclRecord(acl, is_there=True) for acl in acls], NOW)

    def unrule(self, *acls: Acl) -> None:
        assert not self.node.core.accounts.write([AclRecord(acl, is_there=False) for acl in acls], NOW)

    def tell(self, message: Message) -> Any:
        (reply,) = self.ask(1, message)
        return reply


def commit(group_id: str, *topics: str) -> OffsetCommit:
    return OffsetCommit(group_id, tuple(OffsetCommitTopic(name, (OffsetCommitPartition(0, 7),)) for name in topics))


def batch() -> bytes:
    return encode_batch([(None, b"x")], timestamp_ms=0)


def codes(value: object) -> Iterator[ErrorCode]:
    """Every error in a reply, wherever it stands."""
    if isinstance(value, ErrorCode):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from codes(one)
    elif isinstance(value, Message):
        for field in value.__struct_fields__:
            yield from codes(getattr(value, field))


DENIALS = {GROUP_DENIED, TOPIC_DENIED, CLUSTER_DENIED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}


def denial(reply: Message) -> ErrorCode:
    """The denial in a reply; NONE if there is none."""
    found = set(codes(reply)) & DENIALS
    assert len(found) <= 1, reply
    return found.pop() if found else NONE


class Case(NamedTuple):
    """A request; the resource and the operation it needs; the code of its refusal; rules it needs besides."""

    request: Message
    kind: AclResourceType
    operation: AclOperation
    code: ErrorCode
    besides: tuple[Acl, ...] = ()


JOIN = JoinGroup("pay", 60_000, rebalance_timeout_ms=60_000, protocol_type="consumer",
                 protocols=(JoinProtocol("range", b"x"),))  # fmt: skip
READ_GROUP = rule(GROUP, OP.READ)
CASES = [
    Case(JOIN, GROUP, OP.READ, GROUP_DENIED),
    Case(SyncGroup("pay", 1, "m"), GROUP, OP.READ, GROUP_DENIED),
    Case(Heartbeat("pay", 1, "m"), GROUP, OP.READ, GROUP_DENIED),
    Case(LeaveGroup("pay", (LeavingMember("m"),)), GROUP, OP.READ, GROUP_DENIED),
    Case(commit("pay", "orders"), GROUP, OP.READ, GROUP_DENIED, (rule(TOPIC, OP.READ),)),
    Case(commit("pay", "orders"), TOPIC, OP.READ, TOPIC_DENIED, (READ_GROUP,)),
    Case(OffsetFetch((OffsetFetchGroup("pay", None),)), GROUP, OP.DESCRIBE, GROUP_DENIED),
    Case(
        OffsetFetch((OffsetFetchGroup("pay", (OffsetFetchTopic("orders", (0,)),)),)),
        TOPIC,
        OP.DESCRIBE,
        TOPIC_DENIED,
        (READ_GROUP,),
    ),
    Case(OffsetDelete("pay", ()), GROUP, OP.DELETE, GROUP_DENIED),
    Case(
        OffsetDelete("pay", (OffsetDeleteTopic("orders", (0,)),)),
        TOPIC,
        OP.READ,
        TOPIC_DENIED,
        (rule(GROUP, OP.DELETE),),
    ),
    Case(FindCoordinator(("pay",)), GROUP, OP.DESCRIBE, GROUP_DENIED),
    Case(DescribeGroups(("pay",)), GROUP, OP.DESCRIBE, GROUP_DENIED),
    Case(DeleteGroups(("pay",)), GROUP, OP.DELETE, GROUP_DENIED),
    Case(ReportMember("pay", "m"), GROUP, OP.READ, GROUP_DENIED),
    Case(DrainMembers("pay", ("m",)), GROUP, OP.READ, GROUP_DENIED),
    Case(ListNotes("pay"), GROUP, OP.DESCRIBE, GROUP_DENIED),
    Case(HoldGroup("pay", 1_000), GROUP, OP.ALTER_CONFIGS, GROUP_DENIED),
    Case(DescribeExpiry("pay"), GROUP, OP.DESCRIBE, GROUP_DENIED),
    Case(DescribeOwnership("pay"), GROUP, OP.DESCRIBE, GROUP_DENIED),
    Case(StartMember("pay", "c", ("orders",)), GROUP, OP.READ, GROUP_DENIED, (rule(TOPIC, OP.READ),)),
    Case(StartMember("pay", "c", ("orders",)), TOPIC, OP.READ, TOPIC_DENIED, (READ_GROUP,)),
    Case(FetchRegistered("pay", "c", 1, (FetchItem("1:orders:0", 1),)), TOPIC, OP.READ, TOPIC_DENIED, (READ_GROUP,)),
    Case(
        DescribeConfigs((DescribeConfigsResource(ResourceType.GROUP, "pay"),)),
        GROUP,
        OP.DESCRIBE_CONFIGS,
        GROUP_DENIED,
    ),
    Case(
        DescribeConfigs((DescribeConfigsResource(ResourceType.TOPIC, "orders"),)),
        TOPIC,
        OP.DESCRIBE_CONFIGS,
        TOPIC_DENIED,
    ),
    Case(
        DescribeConfigs((DescribeConfigsResource(ResourceType.BROKER, "1"),)),
        CLUSTER,
        OP.DESCRIBE_CONFIGS,
        CLUSTER_DENIED,
    ),
    Case(
        IncrementalAlterConfigs(
            (AlterConfigsResource(ResourceType.TOPIC, "orders", (AlterableConfig("retention.ms", 0, "1"),)),)
        ),
        TOPIC,
        OP.ALTER_CONFIGS,
        TOPIC_DENIED,
    ),
    Case(Metadata((MetadataTopic("orders"),)), TOPIC, OP.DESCRIBE, TOPIC_DENIED),
    Case(DescribeTopicPartitions((NamedTopic("orders"),)), TOPIC, OP.DESCRIBE, TOPIC_DENIED),
    Case(CreateTopics((CreatableTopic("orders", 1),)), TOPIC, OP.CREATE, TOPIC_DENIED),
    Case(CreateTopics((CreatableTopic("orders", 1),)), CLUSTER, OP.CREATE, TOPIC_DENIED),
    Case(DeleteTopics((DeletableTopic("orders"),)), TOPIC, OP.DELETE, TOPIC_DENIED),
    Case(CreatePartitions((GrowingTopic("orders", 3),)), TOPIC, OP.ALTER, TOPIC_DENIED),
    Case(Produce((ProduceTopic("orders", (ProducePartition(0, batch()),)),)), TOPIC, OP.WRITE, TOPIC_DENIED),
    Case(InitProducerId(), TOPIC, OP.WRITE, CLUSTER_DENIED),
    Case(InitProducerId(), CLUSTER, OP.IDEMPOTENT_WRITE, CLUSTER_DENIED),
    Case(Fetch((FetchTopic("orders", (FetchPartition(0, 0),)),), max_wait_ms=0), TOPIC, OP.READ, TOPIC_DENIED),
    Case(ListOffsets((ListOffsetsTopic("orders", (ListOffsetsPartition(0),)),)), TOPIC, OP.DESCRIBE, TOPIC_DENIED),
    Case(OffsetForLeaderEpoch((EpochTopic("orders", (EpochPartition(0, 0),)),)), TOPIC, OP.DESCRIBE, TOPIC_DENIED),
    Case(DescribeNode(), CLUSTER, OP.DESCRIBE, CLUSTER_DENIED),
    Case(DescribeAcls(1), CLUSTER, OP.DESCRIBE, CLUSTER_DENIED),
    Case(DescribeUserScramCredentials(), CLUSTER, OP.DESCRIBE, CLUSTER_DENIED),
    Case(CreateAcls((AclCreation(3, "x", "User:a", "*", 3, 3),)), CLUSTER, OP.ALTER, CLUSTER_DENIED),
    Case(DeleteAcls((AclBindingFilter(3, "x"),)), CLUSTER, OP.ALTER, CLUSTER_DENIED),
    Case(AlterUserScramCredentials((ScramDeletion("x", 1),)), CLUSTER, OP.ALTER, CLUSTER_DENIED),
]
TITLES = [f"{type(case.request).__name__}-{case.kind.name}-{case.operation.name}" for case in CASES]
each_case = pytest.mark.parametrize("case", CASES, ids=TITLES)


@each_case
def test_without_a_rule_a_request_is_refused_and_with_one_it_is_served(case: Case) -> None:
    assert denial(AccessRulesRig(*case.besides).tell(case.request)) is case.code
    assert denial(AccessRulesRig(*case.besides, rule(case.kind, case.operation)).tell(case.request)) is NONE


@each_case
def test_wildcards_prefixes_hosts_and_denials_hold_for_every_request(case: Case) -> None:
    rig = AccessRulesRig(*case.besides)
    needed = rule(case.kind, case.operation)
    everything = rule(case.kind, OP.ALL)
    variants = [
        (needed._replace(host=HOST), NONE),
        (needed._replace(host="10.0.0.2"), case.code),
        (everything, NONE),
        (needed._replace(principal="User:*"), NONE),
        (needed._replace(principal="User:other"), case.code),
    ]
    if case.kind is not CLUSTER and not isinstance(case.request, InitProducerId):  # any topic will do for that
        variants += [
            (needed._replace(name=needed.name[:2], pattern_type=AclPatternType.PREFIXED), NONE),
            (needed._replace(name="*"), NONE),
            (needed._replace(name="unlike"), case.code),
        ]
    denied = needed._replace(permission=AclPermission.DENY)
    if isinstance(case.request, CreateTopics | DeleteTopics | DeleteGroups | CreatePartitions):
        variants = variants[:1]  # these change what the next would find
    for acl, code in variants:
        rig.rule(acl)
        if code is NONE:
            rig.rule(denied)
            assert denial(rig.tell(case.request)) is case.code, "deny wins"
            rig.unrule(denied)
        assert denial(rig.tell(case.request)) is code, acl
        rig.unrule(acl)


def test_every_request_has_its_row_and_every_row_a_request() -> None:
    # A node offers some only by its settings, and those of transactions only with its shards in a cluster's log.
    optional = {ConsumerGroupHeartbeat, ConsumerGroupDescribe, AddOffsetsToTxn, TxnOffsetCommit}
    assert ACCESS.keys() - optional <= HANDLERS.keys() <= ACCESS.keys()
    assert {api.message for api in APIS if api.access is not None} == set(HANDLERS)


def test_who_may_describe_some_topics_is_shown_those_alone() -> None:
    rig = AccessRulesRig(rule(TOPIC, OP.READ))
    assert [one.name for one in rig.tell(Metadata(None)).topics] == ["orders"]
    assert [one.name for one in rig.tell(DescribeTopicPartitions(())).topics] == ["orders"]
    both = rig.tell(Metadata((MetadataTopic("orders"), MetadataTopic("wages"))))
    assert {one.name: one.error_code for one in both.topics} == {"orders": NONE, "wages": TOPIC_DENIED}
    assert both.brokers


def test_pages_of_all_topics_name_no_hidden_one_not_even_as_a_cursor() -> None:
    rig = AccessRulesRig(*(rule(TOPIC, OP.DESCRIBE, name) for name in ("orders", "zebra")))
    rig.rule(rule(CLUSTER, OP.CREATE))
    for name in ("a-hidden", "p-hidden", "zebra", "zz-hidden"):
        rig.make_topic(name, 1)
    pages = []
    cursor: TopicCursor | None = TopicCursor("", 0)
    while cursor is not None:
        reply = rig.tell(DescribeTopicPartitions((), 2, cursor))
        cursor = reply.next_cursor
        pages.append(([one.name for one in reply.topics], cursor and cursor.topic_name))
    assert pages == [(["orders"], "zebra"), (["zebra"], None)]


def test_who_may_describe_no_topic_is_still_told_the_brokers() -> None:
    reply = AccessRulesRig().tell(Metadata((MetadataTopic("orders"),)))
    assert reply.brokers and [one.error_code for one in reply.topics] == [TOPIC_DENIED]


def test_topics_are_known_by_their_ids_too() -> None:
    rig = AccessRulesRig(rule(TOPIC, OP.READ))
    ids = {one: rig.node.core.topics.id_of(one) or b"" for one in ("orders", "wages")}
    reply = rig.tell(Metadata(tuple(MetadataTopic(None, one) for one in ids.values())))
    found = {one.topic_id: (one.name, one.error_code) for one in reply.topics}
    assert found == {ids["orders"]: ("orders", NONE), ids["wages"]: (None, TOPIC_DENIED)}
    unknown = rig.tell(Metadata((MetadataTopic(None, b"x" * 16),)))
    assert unknown.topics[0].error_code is ErrorCode.UNKNOWN_TOPIC_ID
    fetch = Fetch(tuple(FetchTopic("", (FetchPartition(0, 0),), one) for one in ids.values()), max_wait_ms=0)
    fetched = rig.tell(fetch)
    assert {one.topic_id: one.partitions[0].error_code for one in fetched.responses} == {
        ids["orders"]: NONE,
        ids["wages"]: TOPIC_DENIED,
    }


def test_a_topic_is_created_on_the_side_only_by_who_may_create_it() -> None:
    asked = Metadata((MetadataTopic("new"),), allow_auto_topic_creation=True)
    rig = AccessRulesRig(rule(TOPIC, OP.DESCRIBE, "*"))
    assert rig.tell(asked).topics[0].error_code is TOPIC_DENIED
    assert rig.node.core.topics.partition_count("new") is None
    rig.rule(rule(TOPIC, OP.CREATE, "new"))
    assert rig.tell(asked).topics[0].error_code is NONE
    orders = Metadata((MetadataTopic("orders"),), allow_auto_topic_creation=True)
    assert rig.tell(orders).topics[0].error_code is NONE, "it is there"


def test_who_may_not_list_the_cluster_lists_the_groups_it_may_describe() -> None:
    rig = AccessRulesRig()
    assert rig.tell(ListGroups()).groups == ()
    rig.rule(rule(GROUP, OP.READ))
    assert [one.group_id for one in rig.tell(ListGroups()).groups] == ["pay"]
    rig.rule(rule(CLUSTER, OP.DESCRIBE))
    assert [one.group_id for one in rig.tell(ListGroups()).groups] == ["other", "pay"]


def test_offsets_of_all_topics_are_those_of_topics_that_may_be_described() -> None:
    rig = AccessRulesRig(rule(GROUP, OP.READ), rule(TOPIC, OP.READ, "wages"))
    rig.rule(every := rule(TOPIC, OP.READ, "*"))
    rig.tell(commit("pay", "orders", "wages"))
    rig.unrule(every)
    (group,) = rig.tell(OffsetFetch((OffsetFetchGroup("pay", None),))).groups
    assert [topic.name for topic in group.topics] == ["wages"]


def test_authorized_operations_tell_the_truth() -> None:
    rig = AccessRulesRig(rule(GROUP, OP.READ), rule(TOPIC, OP.WRITE), rule(CLUSTER, OP.ALTER))
    (group,) = rig.tell(DescribeGroups(("pay",), include_authorized_operations=True)).groups
    assert group.authorized_operations == 1 << OP.READ | 1 << OP.DESCRIBE
    asked = Metadata(
        (MetadataTopic("orders"),),
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    reply = rig.tell(asked)
    assert reply.topics[0].topic_authorized_operations == 1 << OP.WRITE | 1 << OP.DESCRIBE
    assert reply.cluster_authorized_operations == 1 << OP.ALTER | 1 << OP.DESCRIBE
    cluster = rig.tell(DescribeCluster(include_cluster_authorized_operations=True))
    assert cluster.cluster_authorized_operations == reply.cluster_authorized_operations
    (pages,) = rig.tell(DescribeTopicPartitions((NamedTopic("orders"),))).topics
    assert pages.topic_authorized_operations == reply.topics[0].topic_authorized_operations


def test_transactional_ids_have_rules_of_their_own() -> None:
    reply = AccessRulesRig().tell(InitProducerId("tx"))
    assert denial(reply) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert denial(AccessRulesRig().tell(FindCoordinator(("tx",), 1))) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_heartbeat_is_refused_as_soon_as_the_permission_is_gone() -> None:
    rig = AccessRulesRig(READ_GROUP)
    beat = Heartbeat("pay", 1, "m")
    assert rig.tell(beat).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    rig.unrule(READ_GROUP)
    assert rig.tell(beat).error_code is GROUP_DENIED


def test_requests_from_inside_the_process_are_anonymous_but_for_its_health() -> None:
    rig = AccessRulesRig()
    assert denial(rig.ask_inside(DescribeGroups(("pay",)), 5) or ErrorReply(NONE)) is GROUP_DENIED
    assert not isinstance(rig.ask_inside(DescribeNode(), 6), ErrorReply)


def test_super_users_need_no_rule() -> None:
    rig = AccessRulesRig(super_users=Principals(frozenset({ME})))
    assert denial(rig.tell(DescribeGroups(("pay",)))) is NONE


# --------------------------------------------------------------------------------------------------- administration


@pytest.fixture
def ruled() -> AccessRulesRig:
    return AccessRulesRig(rule(CLUSTER, OP.ALTER))


def creation(**changes: Any) -> AclCreation:
    given = {"resource_type": 3, "resource_name": "pay", "principal": ME, "host": "*", "operation": 3}
    return AclCreation(**{**given, "permission_type": 3, **changes})


def test_bindings_are_created_described_and_deleted(ruled: AccessRulesRig) -> None:
    created = ruled.tell(CreateAcls((creation(), creation(), creation(resource_name=""))))
    assert [(one.error_code, one.error_message) for one in created.results] == [
        (NONE, None),
        (NONE, None),
        (ErrorCode.INVALID_REQUEST, "Resource name should not be empty"),
    ]
    assert denial(ruled.tell(JOIN)) is NONE
    (resource,) = ruled.tell(DescribeAcls(3, "pay", 3)).resources
    assert (resource.resource_name, [one.principal for one in resource.acls]) == ("pay", [ME])
    (gone,) = ruled.tell(DeleteAcls((AclBindingFilter(3, "pay"),))).filter_results
    assert [one.resource_name for one in gone.matching_acls] == ["pay"]
    assert ruled.tell(DescribeAcls(3)).resources == ()
    assert denial(ruled.tell(JOIN)) is GROUP_DENIED


def test_without_an_authorizer_there_are_no_bindings_to_speak_of() -> None:
    rig = NodeRig()
    rig.connect(1)
    for request in (DescribeAcls(1), CreateAcls((creation(),)), DeleteAcls((AclBindingFilter(1),))):
        (reply,) = rig.ask(1, request)
        assert set(codes(reply)) == {ErrorCode.SECURITY_DISABLED}


def upsertion(name: str = "alice", **changes: Any) -> ScramUpsertion:
    return ScramUpsertion(
        **{"name": name, "mechanism": 1, "iterations": 4096, "salt": b"s", "salted_password": b"p", **changes}
    )


ALTERED: list[tuple[AlterUserScramCredentials, list[tuple[str, ErrorCode]]]] = [
    (AlterUserScramCredentials((), (upsertion(), upsertion("bob"))), [("alice", NONE), ("bob", NONE)]),
    (AlterUserScramCredentials((ScramDeletion("alice", 2),)), [("alice", ErrorCode.RESOURCE_NOT_FOUND)]),
    (AlterUserScramCredentials((), (upsertion(""),)), [("", ErrorCode.UNACCEPTABLE_CREDENTIAL)]),
    (AlterUserScramCredentials((), (upsertion(mechanism=9),)), [("alice", ErrorCode.UNSUPPORTED_SASL_MECHANISM)]),
    (AlterUserScramCredentials((), (upsertion(iterations=4095),)), [("alice", ErrorCode.UNACCEPTABLE_CREDENTIAL)]),
    (AlterUserScramCredentials((), (upsertion(iterations=16385),)), [("alice", ErrorCode.UNACCEPTABLE_CREDENTIAL)]),
    (AlterUserScramCredentials((), (upsertion(), upsertion())), [("alice", ErrorCode.DUPLICATE_RESOURCE)]),
    (
        AlterUserScramCredentials((ScramDeletion("alice", 1),), (upsertion(),)),
        [("alice", ErrorCode.DUPLICATE_RESOURCE)],
    ),
]


@pytest.mark.parametrize(("request_", "results"), ALTERED)
def test_credentials_are_altered_by_kafkas_rules(
    ruled: AccessRulesRig, request_: Message, results: list[tuple[str, ErrorCode]]
) -> None:
    reply = ruled.tell(request_)
    assert [(one.user, one.error_code) for one in reply.results] == results
    assert set(ruled.node.core.accounts.users) == {user for user, code in results if not code}


def test_credentials_are_described_without_their_keys(ruled: AccessRulesRig) -> None:
    ruled.tell(AlterUserScramCredentials((), (upsertion(), upsertion(mechanism=2), upsertion("bob"))))
    described = ruled.tell(DescribeUserScramCredentials()).results
    assert [(one.user, [info.mechanism for info in one.credential_infos]) for one in described] == [
        ("alice", [1, 2]),
        ("bob", [1]),
    ]
    ruled.tell(AlterUserScramCredentials((ScramDeletion("bob", 1),)))
    assert set(ruled.node.core.accounts.users) == {"alice"}


def test_groups_of_the_newer_protocol_are_held_to_kafkas_rules() -> None:
    def denying(*denied: tuple[str, str]) -> CodeOf:
        return lambda one: one.denial if (one.kind, one.name) in denied else NONE

    beat = ConsumerGroupHeartbeat("pay", "m", subscribed_topic_names=("orders",))
    for pair, code in ((("group", "pay"), GROUP_DENIED), (("topic", "orders"), TOPIC_DENIED)):
        denied = divide(beat, denying(pair)).denied
        assert denied is not None and denial(denied) is code
    assert divide(beat, denying()).permitted == beat
    ask = ConsumerGroupDescribe(("pay",), include_authorized_operations=True)
    given = DescribedAssignment((DescribedTopicPartitions(b"", "orders", (0,)),))
    member = DescribedConsumer("m", subscribed_topic_names=("orders", "wages"), target_assignment=given)
    reply = ConsumerGroupDescribeReply((DescribedConsumerGroup("pay", members=(member,)),))
    merged: Any = merge_reply(ask, reply, None, denying(("topic", "orders")))
    assert merged.groups[0].error_code is TOPIC_DENIED and merged.groups[0].members == ()
    shown: Any = merge_reply(ask, reply, None, denying())
    assert shown.groups[0].authorized_operations == 3400


def test_acts_and_refusals_are_listed_of_groups_that_may_be_described() -> None:
    rig = AccessRulesRig(rule(GROUP, OP.ALL, "*"), rule(TOPIC, OP.READ))
    for group_id in ("pay", "other"):
        rig.tell(DeleteGroups((group_id,)))
        rig.tell(SyncGroup(group_id, 1, "m"))
    whole = {one.group_id for one in rig.tell(ListAudit()).notes}
    assert whole == {"pay", "other"}
    rig.unrule(rule(GROUP, OP.ALL, "*"))
    rig.rule(rule(GROUP, OP.DESCRIBE))
    assert {one.group_id for one in rig.tell(ListAudit()).notes} == {"pay"}
    assert {one.group_id for one in rig.tell(ListRefusals()).refusals} <= {"pay"}


def test_a_pattern_matches_the_topics_that_the_member_may_describe() -> None:
    rules = rule(GROUP, OP.READ, "g"), rule(TOPIC, OP.READ, "orders")
    rig = AccessRulesRig(*rules, group_coordinator_rebalance_protocols=RebalanceProtocols(("classic", "consumer")))
    joining: Any = {"rebalance_timeout_ms": 60_000, "subscribed_topic_regex": ".*", "topic_partitions": ()}
    assert rig.tell(ConsumerGroupHeartbeat("g", "m", 0, **joining)).error_code is ErrorCode.NONE
    rig.wake_until_idle()
    group = rig.node.core.directory["g"].consumer
    assert group is not None
    assert group.topics_of(".*") == {"orders"}


def test_commits_and_heartbeats_are_decided_once_however_many_rules_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    others = [rule(GROUP, OP.READ, f"g{number}")._replace(principal=f"User:u{number}") for number in range(1_000)]
    rig = AccessRulesRig(*others, rule(GROUP, OP.READ), rule(TOPIC, OP.READ))
    decided: list[object] = []
    authorizer = rig.node.core.accounts.authorizer
    decide = authorizer.decide

    def counted(*asked: Any) -> bool:
        decided.append(asked)
        return decide(*asked)

    monkeypatch.setattr(authorizer, "decide", counted)
    for _ in range(5):
        assert set(codes(rig.tell(commit("pay", "orders")))) == {NONE}
        rig.tell(Heartbeat("pay", 1, "m"))
    assert len(decided) == 2, "the group and the topic, once each"
    assert TOPIC_DENIED in set(codes(rig.tell(commit("pay", "orders", "wages"))))
    rig.unrule(rule(TOPIC, OP.READ))
    assert set(codes(rig.tell(commit("pay", "orders")))) == {TOPIC_DENIED}, "at once"
    rig.unrule(rule(GROUP, OP.READ))
    assert set(codes(rig.tell(commit("pay", "orders")))) == {GROUP_DENIED}
