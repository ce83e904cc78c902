"""AlterUserScramCredentials, key 51 (KIP-554).

0  flexible
"""

from protocol.kafka.fields import BYTES, ERROR, INT8, INT32, LONG_STRING, STRING, array, f, schema
from protocol.messages.acls import (
    AlteredUserScram,
    AlterUserScramCredentials,
    AlterUserScramCredentialsReply,
    ScramDeletion,
    ScramUpsertion,
)

REQUEST = schema(
    AlterUserScramCredentials,
    array("deletions", ScramDeletion, f("name", STRING), f("mechanism", INT8)),
    array(
        "upsertions",
        ScramUpsertion,
        f("name", STRING),
        f("mechanism", INT8),
        f("iterations", INT32),
        f("salt", BYTES),
        f("salted_password", BYTES),
    ),
    versions=(0, 0),
    flexible=0,
)

REPLY = schema(
    AlterUserScramCredentialsReply,
    f("throttle_time_ms", INT32),
    array(
        "results",
        AlteredUserScram,
        f("user", STRING),
        f("error_code", ERROR),
        f("error_message", LONG_STRING, nullable=0),
    ),
    versions=(0, 0),
    flexible=0,
)
