"""DescribeUserScramCredentials, key 50 (KIP-554).

0  flexible
"""

from protocol.kafka.fields import ERROR, INT8, INT32, LONG_STRING, STRING, array, f, schema
from protocol.messages.acls import (
    DescribedUserScram,
    DescribeUserScramCredentials,
    DescribeUserScramCredentialsReply,
    ScramCredentialInfo,
    ScramUser,
)

REQUEST = schema(
    DescribeUserScramCredentials,
    array("users", ScramUser, f("name", STRING), nullable=0),
    versions=(0, 0),
    flexible=0,
)

REPLY = schema(
    DescribeUserScramCredentialsReply,
    f("throttle_time_ms", INT32),
    f("error_code", ERROR),
    f("error_message", LONG_STRING, nullable=0),
    array(
        "results",
        DescribedUserScram,
        f("user", STRING),
        f("error_code", ERROR),
        f("error_message", LONG_STRING, nullable=0),
        array("credential_infos", ScramCredentialInfo, f("mechanism", INT8), f("iterations", INT32)),
    ),
    versions=(0, 0),
    flexible=0,
)
