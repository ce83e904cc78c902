"""A gateway and a broker with an authorizer, in memory. The broker answers permission queries as Apache Kafka 4.3.1
does, by the rights that a test gives to each connection."""

from struct import unpack_from
from typing import Any

from msgspec.structs import replace

from coordinator.gateway.brokers import Broker
from coordinator.gateway.effects import Forward
from coordinator.gateway.events import BrokersFound
from coordinator.node.events import Lost
from protocol.errors import ErrorCode
from protocol.kafka.session import KafkaDialect
from protocol.messages import Message
from protocol.messages.acls import AclOperation
from protocol.messages.configs import (
    AlteredConfigs,
    DescribeConfigs,
    DescribeConfigsReply,
    DescribedConfigs,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsReply,
)
from protocol.messages.groups import (
    DescribedGroup,
    DescribeGroups,
    DescribeGroupsReply,
    Heartbeat,
    HeartbeatReply,
)
from protocol.messages.node import ApiVersionsReply
from protocol.messages.offsets import OffsetDelete, OffsetDeleteReply
from protocol.messages.topics import Metadata, MetadataReply, MetadataTopicReply
from tests.upstream.pair import FRAME_BYTES, Pair

READ, DELETE, DESCRIBE = AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE
CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
_QUERIES: set[type[Message]] = {
    Heartbeat, DescribeGroups, OffsetDelete, Metadata, DescribeConfigs, IncrementalAlterConfigs,
}  # fmt: skip
_QUERY = -8
_IMPLIES_DESCRIBE = {READ, DELETE}


class GuardedPair(Pair):
    """A pair with `rights` by connection: pairs of a name, of a group or topic or "cluster", and an operation.

    `without`: APIs that the broker does not speak. While `ignores_queries` it answers no permission query;
    `holds_replies` holds the replies in `late`.
    """

    def __init__(self, **settings: Any) -> None:
        self.has_authorizer = True
        self.without: tuple[int, ...] = ()
        self.ignores_queries = False
        self.holds_replies = False
        self.rights: dict[int, set[tuple[str, AclOperation]]] = {}
        self.queries: list[Message] = []
        self.late: list[tuple[int, bytes]] = []
        self.is_coordinator = False
        super().__init__(**settings)

    def find(self, *more: int) -> None:
        broker = Broker(1, "hidden", 11, "front", 9101, self._spoken())
        self.front.step(BrokersFound((broker,), self.has_authorizer))
        self.run()

    def _spoken(self) -> ApiVersionsReply:
        rows = tuple(row for row in self.versions.api_keys if row.api_key not in self.without)
        return replace(self.versions, api_keys=rows)

    def client(self, number: int, *rights: tuple[str, AclOperation]) -> int:
        self.rights[number] = set(rights)
        return self.connect(number)

    def lose(self, number: int) -> None:
        """Close the client's connection."""
        self.front.step(Lost(number))

    def release(self) -> None:
        """Deliver the replies that were held."""
        self.to_front += self.late
        self.late, self.holds_replies = [], False
        self.run()

    def _deliver(self, effect: Forward) -> None:
        if len(effect.data) < 12 or unpack_from(">i", effect.data, 8)[0] != _QUERY:
            super()._deliver(effect)
            return
        session = KafkaDialect(FRAME_BYTES, _QUERIES).open()
        session.receive_data(effect.data)
        request = session.next_request()
        assert request is not None
        self.queries.append(request[1])
        if self.ignores_queries:
            return
        answer = session.encode_reply(request[0], self._authorize(effect.connection, request[1]))
        (self.late if self.holds_replies else self.to_front).append((effect.connection, answer))

    def has(self, number: int, name: str, operation: AclOperation) -> bool:
        mine = {one for named, one in self.rights[number] if named == name}
        return operation in mine or (operation is DESCRIBE and bool(mine & _IMPLIES_DESCRIBE))

    def _authorize(self, number: int, message: Message) -> Message:
        after = ErrorCode.NONE if self.is_coordinator else ErrorCode.NOT_COORDINATOR

        def code(name: str, operation: AclOperation, then: ErrorCode = after) -> ErrorCode:
            return then if self.has(number, name, operation) else ErrorCode.GROUP_AUTHORIZATION_FAILED

        match message:
            case Heartbeat():
                return HeartbeatReply(code(message.group_id, READ, after or ErrorCode.UNKNOWN_MEMBER_ID))
            case DescribeGroups():
                return DescribeGroupsReply(tuple(DescribedGroup(one, code(one, DESCRIBE)) for one in message.groups))
            case OffsetDelete():
                assert not message.topics, "it would delete something"
                return OffsetDeleteReply(code(message.group_id, DELETE))
            case DescribeConfigs():
                named = [one.resource_name for one in message.resources]
                return DescribeConfigsReply(
                    tuple(DescribedConfigs(32, one, code(one, CONFIGS, ErrorCode.NONE)) for one in named)
                )
            case IncrementalAlterConfigs():
                assert message.validate_only, "it would change something"
                assert not any(one.configs for one in message.resources)
                named = [one.resource_name for one in message.resources]
                return IncrementalAlterConfigsReply(
                    tuple(AlteredConfigs(32, one, code(one, ALTER_CONFIGS, ErrorCode.NONE)) for one in named)
                )
            case Metadata():
                assert not message.allow_auto_topic_creation
                return self._metadata(number, message)
        raise AssertionError(message)

    def _metadata(self, number: int, message: Metadata) -> MetadataReply:
        known = {one.topic_id: one.name for one in self._topics()}
        topics = []
        if message.topics is None:
            return MetadataReply(
                topics=tuple(one for one in self._topics() if self.has(number, one.name or "", DESCRIBE))
            )
        for asked in message.topics:
            name = asked.name or known.get(asked.topic_id)
            if name is None:
                topics.append(MetadataTopicReply(None, asked.topic_id, ErrorCode.UNKNOWN_TOPIC_ID))
            elif not self.has(number, name, DESCRIBE):
                topics.append(MetadataTopicReply(asked.name, asked.topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            elif name not in known.values():
                topics.append(MetadataTopicReply(name, asked.topic_id, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            else:
                bits = sum(1 << one for one in AclOperation if self.has(number, name, one))
                topics.append(MetadataTopicReply(name, asked.topic_id, topic_authorized_operations=bits))
        cluster = 1 << DESCRIBE if self.has(number, "cluster", DESCRIBE) else 0
        return MetadataReply(topics=tuple(topics), cluster_authorized_operations=cluster)

    def _topics(self) -> tuple[MetadataTopicReply, ...]:
        reply = self.ask_broker(Metadata(None), 12)
        assert isinstance(reply, MetadataReply)
        return reply.topics
