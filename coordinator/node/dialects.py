"""The wire languages a node speaks, as its configuration has them."""

from coordinator import __version__
from coordinator.config.config import Config
from coordinator.handlers.table import HANDLERS
from protocol.kafka.session import KafkaDialect
from protocol.messages.node import HelloReply
from protocol.native.session import METHODS, NativeDialect
from protocol.session import Dialect

_READ_AND_REFUSED = 2
"""Who asks for a little too much is told so; who asks for more than this many times too much is not even read."""


def make_dialects(config: Config) -> dict[str, Dialect]:
    """Each by its name. They offer what is served, and no more."""
    served = {message.__name__ for message in HANDLERS}
    greeting = HelloReply(
        server_name="musterd",
        server_version=__version__,
        node_id=config.node_id,
        methods=tuple(sorted(method for method in METHODS if method in served or method == "Hello")),
        limits={
            "max_frame_bytes": config.native_max_frame_bytes,
            "max_requests_per_connection": config.max_requests_per_connection,
        },
    )
    return {
        "native": NativeDialect(config.native_max_frame_bytes, greeting),
        "kafka": KafkaDialect(
            config.socket_request_max_bytes, set(HANDLERS), _READ_AND_REFUSED * config.max_entries_per_request
        ),
    }
