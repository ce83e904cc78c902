"""Access control lists and users' credentials: Kafka's requests."""

import enum
from typing import Final

from protocol.errors import ErrorCode
from protocol.messages import Int8, Int32, Message, Text

CLUSTER_NAME: Final = "kafka-cluster"
"""Name of the only resource of the type CLUSTER."""


class AclOperation(enum.IntEnum):
    """Kafka's codes of operations. In a set of authorized operations (KIP-430) each is the bit of its number."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclResourceType(enum.IntEnum):
    """Kafka's codes of resource types."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPatternType(enum.IntEnum):
    """Kafka's codes of pattern types. ANY and MATCH are valid only in filters."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclPermission(enum.IntEnum):
    """Kafka's codes of permission types. ANY is valid only in filters."""

    ANY = 1
    DENY = 2
    ALLOW = 3


class AclBindingFilter(Message):
    """Condition on bindings: null and the code 1 match everything."""

    resource_type_filter: Int8
    resource_name_filter: Text | None = None
    pattern_type_filter: Int8 = 3
    principal_filter: Text | None = None
    host_filter: Text | None = None
    operation: Int8 = 1
    permission_type: Int8 = 1


class DescribeAcls(AclBindingFilter):
    """List the ACLs that match. A broker without an authorizer answers SECURITY_DISABLED."""


class DescribedAcl(Message):
    principal: str
    host: str
    operation: int
    permission_type: int


class DescribedAclResource(Message):
    resource_type: int
    resource_name: str
    acls: tuple[DescribedAcl, ...] = ()
    pattern_type: int = 3


class DescribeAclsReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    resources: tuple[DescribedAclResource, ...] = ()
    throttle_time_ms: int = 0


class AclCreation(Message):
    resource_type: Int8
    resource_name: Text
    principal: Text
    host: Text
    operation: Int8
    permission_type: Int8
    resource_pattern_type: Int8 = 3


class CreateAcls(Message):
    """Add bindings, each with a result of its own."""

    creations: tuple[AclCreation, ...]


class AclCreationResult(Message):
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class CreateAclsReply(Message):
    results: tuple[AclCreationResult, ...] = ()
    throttle_time_ms: int = 0


class DeleteAcls(Message):
    """Remove the bindings that match, filter by filter."""

    filters: tuple[AclBindingFilter, ...]


class DeletedAcl(Message):
    resource_type: int
    resource_name: str
    principal: str
    host: str
    operation: int
    permission_type: int
    pattern_type: int = 3
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class DeleteAclsFilterResult(Message):
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    matching_acls: tuple[DeletedAcl, ...] = ()


class DeleteAclsReply(Message):
    filter_results: tuple[DeleteAclsFilterResult, ...] = ()
    throttle_time_ms: int = 0


class ScramUser(Message):
    name: Text


class DescribeUserScramCredentials(Message):
    """List the SCRAM credentials of users; `users` None or empty: of all."""

    users: tuple[ScramUser, ...] | None = None


class ScramCredentialInfo(Message):
    mechanism: int
    iterations: int


class DescribedUserScram(Message):
    user: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    credential_infos: tuple[ScramCredentialInfo, ...] = ()


class DescribeUserScramCredentialsReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    results: tuple[DescribedUserScram, ...] = ()
    throttle_time_ms: int = 0


class ScramDeletion(Message):
    name: Text
    mechanism: Int8


class ScramUpsertion(Message):
    """Credential to set, with the password's salted and iterated hash, which the client computes."""

    name: Text
    mechanism: Int8
    iterations: Int32
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"ScramUpsertion(name={self.name!r}, mechanism={self.mechanism}, hidden)"


class AlterUserScramCredentials(Message):
    """Set and delete SCRAM credentials (KIP-554)."""

    deletions: tuple[ScramDeletion, ...] = ()
    upsertions: tuple[ScramUpsertion, ...] = ()


class AlteredUserScram(Message):
    user: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class AlterUserScramCredentialsReply(Message):
    results: tuple[AlteredUserScram, ...] = ()
    throttle_time_ms: int = 0
