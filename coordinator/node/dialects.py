"""Dialects of a node, by its configuration."""

from coordinator import __version__
from coordinator.config.config import Config
from coordinator.handlers.table import HANDLERS
from protocol.kafka.session import KafkaDialect
from protocol.messages.consumer_groups import ConsumerGroupDescribe, ConsumerGroupHeartbeat
from protocol.messages.node import HelloReply
from protocol.native.session import METHODS, NativeDialect
from protocol.session import Dialect

_READ_AND_REFUSED = 2
"""Factor over the limit of entries that is still parsed and answered with an error; a larger request closes the
connection unread."""


def make_dialects(
    config: Config, *, relays_logins: bool = False, knows_repeated_commits: bool = False
) -> dict[str, Dialect]:
    """Build each dialect by its name. They offer the served messages, and no others. `relays_logins`: native clients
    log in, at a broker. `knows_repeated_commits`: see `KafkaDialect`."""
    offered = set(HANDLERS)
    if "consumer" not in config.group_coordinator_rebalance_protocols.all:
        offered -= {ConsumerGroupHeartbeat, ConsumerGroupDescribe}
    served = {message.__name__ for message in offered} | {"Hello"}
    if config.wants_logins or relays_logins:
        served.add("Login")
    greeting = HelloReply(
        server_name="musterd",
        server_version=__version__,
        node_id=config.node_id,
        methods=tuple(sorted(method for method in METHODS if method in served)),
        limits={
            "max_frame_bytes": config.native_max_frame_bytes,
            "max_requests_per_connection": config.max_requests_per_connection,
        },
    )
    return {
        "native": NativeDialect(config.native_max_frame_bytes, greeting),
        "kafka": KafkaDialect(
            config.socket_request_max_bytes,
            offered,
            _READ_AND_REFUSED * config.max_entries_per_request,
            logs_in=config.wants_logins,
            knows_repeated_commits=knows_repeated_commits,
        ),
    }
