"""Access control lists of Apache Kafka's brokers."""

import enum

from protocol.errors import ErrorCode
from protocol.messages import Int8, Message, Text


class AclOperation(enum.IntEnum):
    """Kafka's codes of operations. In a set of authorized operations (KIP-430) each is the bit of its number."""

    READ = 3
    DELETE = 6
    DESCRIBE = 8
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11


class DescribeAcls(Message):
    """Ask for the ACLs that match. A broker without an authorizer answers SECURITY_DISABLED."""

    resource_type_filter: Int8
    resource_name_filter: Text | None = None
    pattern_type_filter: Int8 = 3
    principal_filter: Text | None = None
    host_filter: Text | None = None
    operation: Int8 = 1
    permission_type: Int8 = 1


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
