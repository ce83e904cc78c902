"""Permissions of one connection's principal, asked of its broker by requests that do nothing beyond being authorized.

DescribeGroups with authorized operations (KIP-430) would tell of all operations at once, but only the group's own
coordinator fills them in, and no broker does before the cluster has an offsets topic (seen on Apache Kafka 4.3.1). But
every broker authorizes a request before it looks for the coordinator, so its error code says what is permitted. Topics
need no coordinator: Metadata tells their operations.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.acls import AclOperation
from protocol.messages.configs import (
    AlterConfigsResource,
    DescribeConfigs,
    DescribeConfigsReply,
    DescribeConfigsResource,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsReply,
    ResourceType,
)
from protocol.messages.groups import DescribeGroups, DescribeGroupsReply, Heartbeat, HeartbeatReply
from protocol.messages.offsets import OffsetDelete, OffsetDeleteReply
from protocol.messages.topics import Metadata, MetadataReply, MetadataTopic, MetadataTopicReply

NAMES_A_QUESTION: Final = 200
VALID_MS: Final = 60_000
"""How long an answer is believed, counted from its question."""

_MOST_KEPT: Final = 10_000
_NO_MEMBER: Final = "muster"
"""No member id of a group at the cluster: Kafka's end with a UUID."""

CLUSTER: Final = "cluster"
GROUP: Final = "group"
TOPIC: Final = "topic"
GROUP_OPERATIONS: Final = tuple(AclOperation)


class Need(NamedTuple):
    """A permission: an operation on a group, a topic (its name, or its id) or the cluster."""

    kind: str
    name: str | bytes
    operation: AclOperation

    @property
    def refusal(self) -> ErrorCode:
        """Kafka's error for who lacks it."""
        return _REFUSALS[self.kind]


Verdict = ErrorCode | None
"""NONE: permitted. Another code: the refusal. None: not known."""

Verdicts = dict[Need, Verdict]
CodeOf = Callable[[Need], ErrorCode]


class Question(NamedTuple):
    """A request for the broker, in versions `oldest` to `newest`, and the permissions that its answer tells."""

    message: Message
    oldest: int
    newest: int
    needs: tuple[Need, ...]
    read: Callable[[tuple[Need, ...], Any], Verdicts]


class Permissions:
    """Answers that are believed, by permission: the code, and when it was asked for."""

    def __init__(self) -> None:
        self._known: dict[Need, tuple[ErrorCode, int]] = {}

    def unknown(self, needs: Iterable[Need], now_ms: int) -> list[Need]:
        """Permissions that must be asked for, each once."""
        known = self._known
        return [
            need for need in dict.fromkeys(needs) if (one := known.get(need)) is None or now_ms - one[1] >= VALID_MS
        ]

    def knows(self, needs: Iterable[Need]) -> bool:
        """Whether each was answered once, however long ago."""
        return all(need in self._known for need in needs)

    def code(self, need: Need) -> ErrorCode:
        """The last answer, however old it is: NONE or a refusal. What was never answered is refused."""
        known = self._known.get(need)
        return need.refusal if known is None else known[0]

    def learn(self, verdicts: Verdicts, asked_ms: int) -> None:
        """Take answers in; a verdict of None leaves what was known. A topic that the broker does not know yet is asked
        for again by the next request."""
        for need, code in verdicts.items():
            if code is not None:
                since_ms = asked_ms - VALID_MS if code is ErrorCode.UNKNOWN_TOPIC_ID else asked_ms
                self._known[need] = code, since_ms

    def trim(self) -> None:
        """Forget everything where a client has asked for too much: it names groups and topics as it likes."""
        if len(self._known) > _MOST_KEPT:
            self._known.clear()


def refused(question: Question) -> Verdicts:
    """Verdicts where the broker speaks no version of the question."""
    return {need: need.refusal for need in question.needs}


def questions(needs: Iterable[Need]) -> Iterator[Question]:
    """The fewest questions that tell of all these permissions."""
    sorts: dict[tuple[str, AclOperation, type], list[Need]] = {}
    for need in needs:
        operation = AclOperation.READ if need.kind == TOPIC else need.operation
        sorts.setdefault((need.kind, operation, type(need.name)), []).append(need)
    for (kind, operation, of), some in sorts.items():
        size = 1 if (kind, operation) in _ONE_BY_ONE else NAMES_A_QUESTION
        for start in range(0, len(some), size):
            yield _question(kind, operation, of, tuple(some[start : start + size]))


def _question(kind: str, operation: AclOperation, of: type, needs: tuple[Need, ...]) -> Question:
    names = tuple(need.name for need in needs)
    if kind == CLUSTER:
        asked = Metadata((), allow_auto_topic_creation=False, include_cluster_authorized_operations=True)
        return Question(asked, 8, 10, needs, _read_cluster)
    if kind == TOPIC:
        unique = dict.fromkeys(names)
        topics = tuple(MetadataTopic(one) if isinstance(one, str) else MetadataTopic(None, one) for one in unique)
        asked = Metadata(topics, allow_auto_topic_creation=False, include_topic_authorized_operations=True)
        return Question(asked, 12 if of is bytes else 8, 12, needs, _read_topics)
    message, newest, read = _OF_GROUPS[operation](tuple(map(str, names)))
    return Question(message, 0, newest, needs, read)


_Read = Callable[[tuple[Need, ...], Any], Verdicts]
_OF_GROUPS: Final[dict[AclOperation, Callable[[tuple[str, ...]], tuple[Message, int, _Read]]]] = {
    AclOperation.READ: lambda names: (Heartbeat(names[0], 0, _NO_MEMBER), 4, _read_code),
    AclOperation.DESCRIBE: lambda names: (DescribeGroups(names), 5, _read_groups),
    AclOperation.DELETE: lambda names: (OffsetDelete(names[0], ()), 0, _read_code),
    AclOperation.DESCRIBE_CONFIGS: lambda names: (
        DescribeConfigs(tuple(DescribeConfigsResource(ResourceType.GROUP, name, ()) for name in names)),
        4,
        _read_configs,
    ),
    AclOperation.ALTER_CONFIGS: lambda names: (
        IncrementalAlterConfigs(
            tuple(AlterConfigsResource(ResourceType.GROUP, name, ()) for name in names), validate_only=True
        ),
        1,
        _read_configs,
    ),
}
_ONE_BY_ONE: Final = {(GROUP, AclOperation.READ), (GROUP, AclOperation.DELETE)}
_REFUSALS: Final = {
    GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}
_AUTHORIZED: Final = {
    ErrorCode.NONE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.NON_EMPTY_GROUP,
    ErrorCode.GROUP_ID_NOT_FOUND,
}
"""Errors that a broker gives after it has authorized the request."""
_UNSUPPORTED: Final = {ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION}
"""Answers of brokers that have no settings of groups, and so no permission for them."""


def _of_group(code: ErrorCode) -> Verdict:
    if code in _AUTHORIZED:
        return ErrorCode.NONE
    return code if code is ErrorCode.GROUP_AUTHORIZATION_FAILED else None


def _read_code(needs: tuple[Need, ...], reply: HeartbeatReply | OffsetDeleteReply) -> Verdicts:
    return {need: _of_group(reply.error_code) for need in needs}


def _read_groups(needs: tuple[Need, ...], reply: DescribeGroupsReply) -> Verdicts:
    said = {group.group_id: _of_group(group.error_code) for group in reply.groups}
    return {need: said.get(str(need.name)) for need in needs}


def _read_configs(needs: tuple[Need, ...], reply: DescribeConfigsReply | IncrementalAlterConfigsReply) -> Verdicts:
    results = reply.results if isinstance(reply, DescribeConfigsReply) else reply.responses
    said = {one.resource_name: one.error_code for one in results}
    return {need: _of_settings(said.get(str(need.name))) for need in needs}


def _of_settings(code: ErrorCode | None) -> Verdict:
    return ErrorCode.GROUP_AUTHORIZATION_FAILED if code in _UNSUPPORTED else None if code is None else _of_group(code)


def _read_topics(needs: tuple[Need, ...], reply: MetadataReply) -> Verdicts:
    said: dict[str | bytes, MetadataTopicReply] = {}
    for one in reply.topics:
        # A topic that may not be seen, asked for by its id, is answered without its name, and the other way round.
        said[one.name or ""] = said[one.topic_id] = one
    verdicts: Verdicts = {}
    for need in needs:
        topic = said.get(need.name)
        if topic is None:
            verdicts[need] = None
        elif topic.error_code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID):
            verdicts[need] = topic.error_code
        else:
            verdicts[need] = _of_bits(need, topic.topic_authorized_operations)
    return verdicts


def _read_cluster(needs: tuple[Need, ...], reply: MetadataReply) -> Verdicts:
    return {need: _of_bits(need, reply.cluster_authorized_operations) for need in needs}


def _of_bits(need: Need, operations: int) -> ErrorCode:
    return ErrorCode.NONE if operations > 0 and operations >> need.operation & 1 else need.refusal
