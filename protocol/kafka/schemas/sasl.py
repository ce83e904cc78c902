"""SaslHandshake, key 17, and SaslAuthenticate, key 36. A listener without logins answers both with
ILLEGAL_SASL_STATE, as Kafka's does.

    handshake 0, 1     1: what follows is SaslAuthenticate requests (KIP-152)
    authenticate 0     as it began
    authenticate 1     session lifetime (KIP-368)
    authenticate 2     flexible
"""

from protocol.kafka.fields import BYTES, ERROR, INT64, LONG_STRING, STRING, each, f, schema
from protocol.messages.node import SaslAuthenticate, SaslAuthenticateReply, SaslHandshake, SaslHandshakeReply

HANDSHAKE = schema(SaslHandshake, f("mechanism", STRING), versions=(0, 1))

HANDSHAKE_REPLY = schema(SaslHandshakeReply, f("error_code", ERROR), f("mechanisms", each(STRING)), versions=(0, 1))

AUTHENTICATE = schema(SaslAuthenticate, f("auth_bytes", BYTES), versions=(0, 2), flexible=2)

AUTHENTICATE_REPLY = schema(
    SaslAuthenticateReply,
    f("error_code", ERROR),
    f("error_message", LONG_STRING, nullable=0),
    f("auth_bytes", BYTES),
    f("session_lifetime_ms", INT64, since=1),
    versions=(0, 2),
    flexible=2,
)
