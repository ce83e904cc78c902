"""Methods of the native protocol, with their request and reply types. A method has its request type's name.

If Kafka has a single form besides the list form, a `Wire` type accepts and distinguishes both.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from protocol.messages import (
    GroupId,
    Int32,
    Message,
    Text,
    acls,
    balanced,
    configs,
    consumer_groups,
    data,
    groups,
    node,
    offsets,
    ownership,
    quotas,
    reports,
    tokens,
    topics,
)
from protocol.native.codec import WrongParams


class Form(Enum):
    """Form of the reply to a request: the whole reply, its only entry, or none."""

    WHOLE = "whole"
    SINGLE = "single"
    NEVER = "never"


class FindCoordinatorWire(Message):
    key: GroupId | UnsetType = UNSET
    key_type: Int32 = 0
    coordinator_keys: tuple[GroupId, ...] | UnsetType = UNSET

    def plain(self) -> tuple[Message, Form]:
        if self.coordinator_keys is not UNSET:
            _forbid("key", self.key)
            return node.FindCoordinator(self.coordinator_keys, self.key_type), Form.WHOLE
        if self.key is UNSET:
            raise WrongParams("coordinator_keys", "is required, or key")
        return node.FindCoordinator((self.key,), self.key_type), Form.SINGLE


class LeaveGroupWire(Message):
    group_id: GroupId
    member_id: Text | UnsetType = UNSET
    group_instance_id: Text | UnsetType | None = UNSET
    reason: Text | None = None
    members: tuple[groups.LeavingMember, ...] | UnsetType = UNSET

    def plain(self) -> tuple[Message, Form]:
        if self.members is not UNSET:
            _forbid("member_id", self.member_id)
            _forbid("group_instance_id", self.group_instance_id)
            return groups.LeaveGroup(self.group_id, self.members), Form.WHOLE
        if self.member_id is UNSET and self.group_instance_id is UNSET:
            raise WrongParams("members", "is required, or member_id")
        member_id = "" if self.member_id is UNSET else self.member_id
        instance_id = None if self.group_instance_id is UNSET else self.group_instance_id
        member = groups.LeavingMember(member_id, instance_id, self.reason)
        return groups.LeaveGroup(self.group_id, (member,)), Form.SINGLE


class OffsetFetchWire(Message):
    group_id: GroupId | UnsetType = UNSET
    topics: tuple[offsets.OffsetFetchTopic, ...] | None = None
    groups: tuple[offsets.OffsetFetchGroup, ...] | UnsetType = UNSET
    require_stable: bool = False

    def plain(self) -> tuple[Message, Form]:
        if self.groups is not UNSET:
            _forbid("group_id", self.group_id)
            return offsets.OffsetFetch(self.groups, self.require_stable), Form.WHOLE
        if self.group_id is UNSET:
            raise WrongParams("groups", "is required, or group_id")
        asked = offsets.OffsetFetchGroup(self.group_id, self.topics)
        return offsets.OffsetFetch((asked,), self.require_stable), Form.SINGLE


Wire = FindCoordinatorWire | LeaveGroupWire | OffsetFetchWire


def _forbid(field: str, value: object) -> None:
    if value is not UNSET:
        raise WrongParams(field, "belongs to the form for one, and the request has the list too")


def _commit(request: offsets.OffsetCommit) -> tuple[Message, Form]:
    """Check that `absent_group_error` is an error that some version of the request can return."""
    if not request.absent_group_error.is_known:
        raise WrongParams("absent_group_error", f"{request.absent_group_error.value} is no error code")
    return request, Form.WHOLE


def _produce(request: data.Produce) -> tuple[Message, Form]:
    """Return the form: with `acks` 0 there is no reply, not even an error, as in Kafka."""
    return request, Form.NEVER if request.acks == 0 else Form.WHOLE


class Method(NamedTuple):
    """A method. `decode` raises `msgspec`'s errors. `plain`, if any, makes the request from the decoded `Wire` type,
    and returns the form of its reply; it raises WrongParams."""

    request: type[Message]
    reply: type[Message]
    decode: Callable[[msgspec.Raw], Any]
    plain: Callable[[Any], tuple[Message, Form]] | None


def _method(
    request: type[Message], reply: type[Message], plain: Callable[[Any], tuple[Message, Form]] | None = None
) -> Method:
    return Method(request, reply, msgspec.msgpack.Decoder(request).decode, plain)


def _either(wire: type[Wire], request: type[Message], reply: type[Message]) -> Method:
    return Method(request, reply, msgspec.msgpack.Decoder(wire).decode, wire.plain)


METHODS: Final = {
    method.request.__name__: method
    for method in (
        _method(node.Hello, node.HelloReply),
        _method(node.Login, node.LoginReply),
        # discovery
        _either(FindCoordinatorWire, node.FindCoordinator, node.FindCoordinatorReply),
        _method(topics.Metadata, topics.MetadataReply),
        _method(topics.DescribeTopicPartitions, topics.DescribeTopicPartitionsReply),
        _method(node.DescribeCluster, node.DescribeClusterReply),
        _method(node.DescribeNode, node.DescribeNodeReply),
        # groups
        _method(groups.JoinGroup, groups.JoinGroupReply),
        _method(groups.SyncGroup, groups.SyncGroupReply),
        _method(groups.Heartbeat, groups.HeartbeatReply),
        _either(LeaveGroupWire, groups.LeaveGroup, groups.LeaveGroupReply),
        _method(groups.ListGroups, groups.ListGroupsReply),
        _method(groups.DescribeGroups, groups.DescribeGroupsReply),
        _method(groups.DeleteGroups, groups.DeleteGroupsReply),
        # offsets
        _method(offsets.OffsetCommit, offsets.OffsetCommitReply, _commit),
        _either(OffsetFetchWire, offsets.OffsetFetch, offsets.OffsetFetchReply),
        _method(offsets.OffsetDelete, offsets.OffsetDeleteReply),
        _method(offsets.ListOffsets, offsets.ListOffsetsReply),
        _method(data.OffsetForLeaderEpoch, data.OffsetForLeaderEpochReply),
        # registry
        _method(ownership.ClaimPartitions, ownership.ClaimPartitionsReply),
        _method(ownership.ReleasePartitions, ownership.ReleasePartitionsReply),
        _method(ownership.DescribeOwnership, ownership.DescribeOwnershipReply),
        # client-balanced groups
        _method(balanced.StartMember, balanced.StartMemberReply),
        _method(balanced.MemberHeartbeat, balanced.MemberHeartbeatReply),
        _method(balanced.PartitionMeta, balanced.PartitionMetaReply),
        _method(balanced.RegisterPartitions, balanced.RegisterPartitionsReply),
        _method(balanced.UnregisterPartitions, balanced.UnregisterPartitionsReply),
        _method(balanced.FetchRegistered, balanced.FetchRegisteredReply),
        _method(balanced.ConfirmConsumed, balanced.ConfirmConsumedReply),
        _method(balanced.LeaveMember, balanced.LeaveMemberReply),
        _method(balanced.DescribeBalanced, balanced.DescribeBalancedReply),
        _method(balanced.ConsumeFromMax, balanced.ConsumeFromMaxReply),
        # consumer groups
        _method(consumer_groups.ConsumerGroupHeartbeat, consumer_groups.ConsumerGroupHeartbeatReply),
        _method(consumer_groups.ConsumerGroupDescribe, consumer_groups.ConsumerGroupDescribeReply),
        # topics
        _method(topics.CreateTopics, topics.CreateTopicsReply),
        _method(topics.DeleteTopics, topics.DeleteTopicsReply),
        _method(topics.CreatePartitions, topics.CreatePartitionsReply),
        _method(configs.DescribeConfigs, configs.DescribeConfigsReply),
        _method(configs.IncrementalAlterConfigs, configs.IncrementalAlterConfigsReply),
        _method(configs.AlterConfigs, configs.AlterConfigsReply),
        # accounts
        _method(acls.DescribeAcls, acls.DescribeAclsReply),
        _method(acls.CreateAcls, acls.CreateAclsReply),
        _method(acls.DeleteAcls, acls.DeleteAclsReply),
        _method(acls.DescribeUserScramCredentials, acls.DescribeUserScramCredentialsReply),
        _method(acls.AlterUserScramCredentials, acls.AlterUserScramCredentialsReply),
        _method(quotas.DescribeClientQuotas, quotas.DescribeClientQuotasReply),
        _method(quotas.AlterClientQuotas, quotas.AlterClientQuotasReply),
        _method(tokens.ListTokens, tokens.ListTokensReply),
        _method(tokens.CreateToken, tokens.CreateTokenReply),
        _method(tokens.DeleteToken, tokens.DeleteTokenReply),
        # records
        _method(data.Produce, data.ProduceReply, _produce),
        _method(data.Fetch, data.FetchReply),
        _method(data.InitProducerId, data.InitProducerIdReply),
        # reports of members
        _method(reports.ReportMember, reports.ReportMemberReply),
        _method(reports.DrainMembers, reports.DrainMembersReply),
        # explanation
        _method(groups.ListNotes, groups.ListNotesReply),
        _method(groups.ApplyOffsets, groups.ApplyOffsetsReply),
        _method(groups.HoldGroup, groups.HoldGroupReply),
        _method(groups.ListAudit, groups.ListAuditReply),
        _method(groups.ListRefusals, groups.ListRefusalsReply),
        _method(offsets.ListGroupOffsets, offsets.ListGroupOffsetsReply),
        _method(offsets.ListEndSamples, offsets.ListEndSamplesReply),
        _method(offsets.DescribeExpiry, offsets.DescribeExpiryReply),
    )
}

PUSHES: Final = {
    push.__name__: push
    for push in (
        groups.RebalanceStarted,
        groups.MemberRemoved,
        groups.CoordinatorMoved,
        balanced.PartitionsLost,
        balanced.PartitionsChanged,
        consumer_groups.AssignmentChanged,
    )
}


def only_entry(reply: Message) -> Message:
    """Return the reply's only entry, for the single form. An error of the whole reply becomes the entry's."""
    entries: tuple[Message, ...] = ()
    if isinstance(reply, node.FindCoordinatorReply):
        entries = reply.coordinators
    elif isinstance(reply, groups.LeaveGroupReply) and not reply.error_code:
        entries = reply.members
    elif isinstance(reply, offsets.OffsetFetchReply):
        entries = reply.groups
    return entries[0] if entries else reply
