"""Groups for the console's tests and pictures: one that reads, one whose member was killed, one that rebalances."""

import threading
import time
from collections.abc import Sequence

from muster import Consumer, Producer
from muster.blocking import ClusterClient
from protocol.consumer_protocol import Subscription, encode_subscription
from protocol.messages.groups import JoinGroup, JoinGroupReply, JoinProtocol, SyncGroup
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.edges.musterd import Daemon

TOPICS = {"orders": 12, "payments": 6, "clicks": 24}


def make_topics(daemon: Daemon, records: int = 3_000) -> None:
    """Make the topics, and write records to each."""
    with ClusterClient(daemon.bootstrap) as connection:
        connection.ask(CreateTopics(tuple(CreatableTopic(name, count) for name, count in TOPICS.items())))
    with Producer(daemon.bootstrap) as producer:
        for topic, count in TOPICS.items():
            for number in range(records):
                producer.send(topic, b"%d" % number, partition=number % count)


class Reader(threading.Thread):
    """A consumer that reads and commits, some records at a time, until it is told to end."""

    def __init__(self, daemon: Daemon, group_id: str, topics: Sequence[str], client_id: str, a_poll: int = 50) -> None:
        super().__init__(name=client_id, daemon=True)
        self._arguments = (daemon.bootstrap, group_id)
        self._topics, self._client_id, self._a_poll = topics, client_id, a_poll
        self._ending = threading.Event()
        self.start()

    def run(self) -> None:
        with Consumer(
            *self._arguments,
            client_id=self._client_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=self._a_poll,
        ) as consumer:
            consumer.subscribe(list(self._topics))
            while not self._ending.wait(0.5):
                if consumer.poll(0.2):
                    consumer.commit()

    def end(self) -> None:
        self._ending.set()
        self.join(60)


def dead_member(daemon: Daemon, group_id: str, client_id: str) -> None:
    """Join and sync a member, and close its connection: what a killed process leaves."""
    with ClusterClient(daemon.bootstrap, client_id=client_id) as connection:
        metadata = encode_subscription(Subscription(("payments",)))
        protocols = (JoinProtocol("range", metadata),)
        joined = connection.ask(
            JoinGroup(group_id, 600_000, "", "consumer", protocols, 600_000, wants_member_id_first=False)
        )
        assert isinstance(joined, JoinGroupReply) and not joined.error_code, joined
        connection.ask(SyncGroup(group_id, joined.generation_id, joined.member_id))


def keep_writing(daemon: Daemon, topic: str, ending: threading.Event) -> None:
    """Write records until told to end."""
    with Producer(daemon.bootstrap) as producer:
        number = 0
        while not ending.is_set():
            for _ in range(40):
                producer.send(topic, b"x", partition=number % TOPICS[topic])
                number += 1
            time.sleep(0.2)
