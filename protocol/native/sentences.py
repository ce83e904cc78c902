"""Default error messages by error code."""

from typing import Final

from protocol.errors import ErrorCode

_SENTENCES: Final = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "the server failed in a way it has no code for",
    ErrorCode.OFFSET_OUT_OF_RANGE: "no record of the partition has this offset",
    ErrorCode.CORRUPT_MESSAGE: "the records do not match their checksum, or are no record batch",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "this node serves no such topic or partition",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "another node serves this partition",
    ErrorCode.REQUEST_TIMED_OUT: "the request was not done in the time it gave",
    ErrorCode.MESSAGE_TOO_LARGE: "the records are larger than the topic allows",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "the metadata beside the offset is longer than allowed",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "the coordinator is still loading this group; try again",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "no coordinator serves this group now; ask again for it",
    ErrorCode.NOT_COORDINATOR: "another node coordinates this group; ask for it",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "no topic may have this name",
    ErrorCode.ILLEGAL_GENERATION: "the generation is not the group's current one; rejoin",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "no protocol of this member is one that all the others have too",
    ErrorCode.INVALID_GROUP_ID: "no group may have this id",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has no such member; join again without an id",
    ErrorCode.INVALID_SESSION_TIMEOUT: (
        "the session timeout is outside what the coordinator allows: "
        "group.min.session.timeout.ms to group.max.session.timeout.ms"
    ),
    ErrorCode.REBALANCE_IN_PROGRESS: "the group is rebalancing; rejoin",
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: "the commit is too large for one record batch",
    ErrorCode.UNSUPPORTED_VERSION: "this server does not know the method",
    ErrorCode.INVALID_REQUEST: "the request contradicts itself or lacks something",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "no access rule permits this on the topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "no access rule permits this on the group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "no access rule permits this on the cluster",
    ErrorCode.SECURITY_DISABLED: "there are no access rules here (authorizer.class.name)",
    ErrorCode.KAFKA_STORAGE_ERROR: "the disk failed",
    ErrorCode.NON_EMPTY_GROUP: "the group still has members",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.MEMBER_ID_REQUIRED: "join again with the member id given here",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group has as many members as it may have",
    ErrorCode.FENCED_INSTANCE_ID: "another member has taken over this group instance id",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "the group still reads this topic",
    ErrorCode.UNSTABLE_OFFSET_COMMIT: "a transaction still holds offsets of the group; try again",
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: "more is asked than this client may ask now; try again later",
    ErrorCode.BAD_REQUEST: "the request is not one that could ever be granted",
    ErrorCode.NOT_OWNER_COMMIT: "only the owner of the partition may commit its offset",
    ErrorCode.FORBIDDEN: "this may not be read now",
    ErrorCode.NOT_FOUND: "the group reads no such partition, or there is nothing more in it",
    ErrorCode.PARTITION_OCCUPIED: "another member owns the partition",
    ErrorCode.NO_NODE: "the group has no such member, or no member owns the partition; join or register again",
    ErrorCode.DUPLICATE_PARTITION: "the partition is another member's, or this member's by a newer grant",
    ErrorCode.CERTIFICATE: "this member may not do that",
    ErrorCode.UNSUBSCRIBABLE: "the partition cannot be read at the moment",
    ErrorCode.INCONSISTENT_MODE: "the group is of another kind",
    ErrorCode.INCONSISTENT_TOPICS: "the group reads other topics",
    ErrorCode.INCONSISTENT_FILTERS: "the group reads with other filters",
    ErrorCode.INCONSISTENT_SOURCE_COUNT: "the group counts on another number of members",
    ErrorCode.DUPLICATE_NODE_ID: "another member has this number",
    ErrorCode.TOPIC_NOT_DEPLOYED: "there is no such topic",
    ErrorCode.GROUP_FORBIDDEN: "this group may not read that",
    ErrorCode.SPEED_LIMIT: "more is read than may be read now; wait",
    ErrorCode.CONTENT_FORBIDDEN: "this may not be filtered for",
    ErrorCode.REPLACED_MEMBER: "a newer member has this instance id; stop",
    ErrorCode.NOT_ASSIGNED: "the partition is not assigned to this member",
    ErrorCode.UNAVAILABLE: "the partition cannot be served at the moment; wait",
}


def sentence(code: ErrorCode) -> str:
    """Return a message in lower case without a full stop; the code's name in words if there is none."""
    return _SENTENCES.get(code) or code.name.lower().replace("_", " ")
