"""Topics and groups about which both tools are asked, made alike in every run at one musterd."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Final

from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from interop.processes import Failed
from interop.program import until
from muster.blocking.cluster import ClusterClient
from protocol.messages.groups import (
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    SyncGroup,
    SyncGroupAssignment,
    SyncGroupReply,
)

FLIGHTS: Final = "flights"
"""Topic whose partition 2 is empty."""
ORDERS: Final = "orders-of-the-whole-company"
"""Topic with a name that is wider than its column."""
RECORDS: Final[Mapping[str, tuple[int, ...]]] = {FLIGHTS: (10, 6, 0), ORDERS: (4, 4)}
"""Number of records in each partition."""
FIRST_MS: Final = 1_704_067_200_000
"""Time of the first record of each partition, 2024-01-01T00:00:00Z; the others follow, one a minute."""
COMMITS: Final = ((FLIGHTS, 0, 3), (FLIGHTS, 1, 6), (ORDERS, 1, 1))
"""Offsets that are committed in each group."""

CLASSIC: Final = "classic-group-with-two-members"
STATIC: Final = "static"
SERVER_DRIVEN: Final = "server-driven"
MIGRATING: Final = "migrating"
"""Server-driven group with a member that uses the classic protocol."""
CONNECTORS: Final = "connectors"
"""Group of another protocol type, which is no consumer group."""
EMPTY: Final = "empty"
EMPTY_SERVER_DRIVEN: Final = "empty-server-driven"
MISSING: Final = "missing"
"""Group that does not exist."""
_WAIT_S: Final = 60.0
_SESSION_MS: Final = 300_000


class Groups:
    """Makes groups at a musterd, and looks at what is left of them."""

    def __init__(self, bootstrap: str, stack: ExitStack) -> None:
        """Connect. `stack` holds the members, which stay until it is closed."""
        self._bootstrap = bootstrap
        self._stack = stack
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._cluster = stack.enter_context(ClusterClient(f"kafka://{bootstrap}"))

    def make_all(self) -> None:
        """Create the topics and the groups that no invocation changes."""
        self._make_topics()
        members = [
            self._member(CLASSIC, "reader"),
            self._member(CLASSIC, "reader-with-a-long-name"),
            self._member(STATIC, "reader", {"group.instance.id": "desk-1"}),
            self._member(STATIC, "reader"),
            self._member(SERVER_DRIVEN, "a", {"group.protocol": "consumer"}),
            self._member(SERVER_DRIVEN, "b", {"group.protocol": "consumer"}),
            self._member(MIGRATING, "a", {"group.protocol": "consumer"}),
            self._member(MIGRATING, "b"),
        ]
        self._settle(members, dict.fromkeys((CLASSIC, STATIC, SERVER_DRIVEN, MIGRATING), 2))
        self._join_connect()
        self.commit(EMPTY)
        with ExitStack() as leaving:
            member = self._member(EMPTY_SERVER_DRIVEN, "a", {"group.protocol": "consumer"}, leaving)
            self._settle([member], {EMPTY_SERVER_DRIVEN: 1})

    def commit(self, group: str) -> None:
        """Commit the offsets, without a member."""
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(*one) for one in COMMITS])
        self._admin.alter_consumer_group_offsets([wanted])[group].result(_WAIT_S)

    def left_of(self, group: str) -> str:
        """Return the group's state and its offsets, as a sentence."""
        state = self._described(group)[0].name.lower()
        wanted = [ConsumerGroupTopicPartitions(group)]
        found = self._admin.list_consumer_group_offsets(wanted)[group].result(_WAIT_S).topic_partitions or []
        offsets = sorted((one.topic, one.partition, one.offset) for one in found)
        return " ".join([f"{state}:", *(f"{topic}-{partition}@{offset}" for topic, partition, offset in offsets)])

    def _make_topics(self) -> None:
        wanted = [NewTopic(name, len(counts), 1, config={"retention.ms": "-1"}) for name, counts in RECORDS.items()]
        for made in self._admin.create_topics(wanted).values():
            made.result(_WAIT_S)
        producer = Producer({"bootstrap.servers": self._bootstrap, "log_level": 0})
        for topic, counts in RECORDS.items():
            for partition, count in enumerate(counts):
                for number in range(count):
                    producer.produce(topic, b"record", partition=partition, timestamp=FIRST_MS + number * 60_000)
        if producer.flush(_WAIT_S):
            raise Failed("the records were not written in time")

    def _member(
        self, group: str, client_id: str, settings: Mapping[str, str] | None = None, stack: ExitStack | None = None
    ) -> Consumer:
        all_settings = {
            "bootstrap.servers": self._bootstrap,
            "group.id": group,
            "client.id": client_id,
            "enable.auto.commit": False,
            "log_level": 0,
            **(settings or {}),
        }
        consumer = Consumer(all_settings)
        (stack or self._stack).enter_context(closing(consumer))
        consumer.subscribe([*RECORDS])
        return consumer

    def _settle(self, members: Sequence[Consumer], counts: Mapping[str, int]) -> None:
        """Poll until each group is stable and all partitions are assigned; then commit."""
        partitions = sum(map(len, RECORDS.values()))

        def is_settled() -> bool:
            for member in members:
                member.poll(0.05)
            assigned = sum(len(member.assignment()) for member in members)
            stable = all(
                self._described(group) == (ConsumerGroupState.STABLE, count) for group, count in counts.items()
            )
            return stable and assigned == partitions * len(counts)

        until(is_settled, f"stable: {', '.join(counts)}", _WAIT_S)
        for member in members:
            own = {(one.topic, one.partition) for one in member.assignment()}
            due = [TopicPartition(*one) for one in COMMITS if one[:2] in own]
            if due:
                member.commit(offsets=due, asynchronous=False)

    def _join_connect(self) -> None:
        node = self._cluster.coordinator(CONNECTORS)
        protocols = (JoinProtocol("sessioned", b""),)
        request = JoinGroup(CONNECTORS, _SESSION_MS, "", "connect", protocols, _SESSION_MS, wants_member_id_first=False)
        reply = self._cluster.ask(request, node=node)
        if not isinstance(reply, JoinGroupReply) or reply.error_code:
            raise Failed(f"no member of a group of connectors: {reply}")
        sync = SyncGroup(
            CONNECTORS, reply.generation_id, reply.member_id, assignments=(SyncGroupAssignment(reply.member_id, b""),)
        )
        synced = self._cluster.ask(sync, node=node)
        if not isinstance(synced, SyncGroupReply) or synced.error_code:
            raise Failed(f"no group of connectors: {synced}")

    def _described(self, group: str) -> tuple[ConsumerGroupState, int]:
        found = self._admin.describe_consumer_groups([group])[group].result(_WAIT_S)
        return found.state, len(found.members)
