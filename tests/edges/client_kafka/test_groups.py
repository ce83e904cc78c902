"""Groups of our own consumer over Kafka's protocol, and of both dialects together."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress

import pytest

from muster import GroupMember, Producer, Refused
from muster.blocking import ClusterClient
from muster.net.dialects import kafka
from muster.net.dialects.versions import NoCommonVersion, choose
from protocol.apis import BY_MESSAGE
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import Fetch
from protocol.messages.groups import DescribeGroups, DescribeGroupsReply
from protocol.messages.node import ApiVersion, FindCoordinator
from protocol.messages.offsets import OffsetFetch
from tests.edges.client_kafka.conftest import SETTINGS, ConsumerFactory, Where, make_topic, poll_until
from tests.edges.musterd import running


def produce(where: Where, topic: str, first: int, end: int) -> None:
    with Producer(where.kafka) as producer:
        for number in range(first, end):
            producer.send(topic, b"%d" % number, key=b"%d" % number)


def test_two_share_and_the_one_that_stays_goes_on_where_the_other_committed(
    where: Where, factory: ConsumerFactory, topic: str
) -> None:
    share_and_go_on(where, factory, topic, where.kafka, where.kafka)


@pytest.mark.parametrize("leaver", ["native", "kafka"])
def test_both_dialects_share_one_group(where: Where, factory: ConsumerFactory, topic: str, leaver: str) -> None:
    if where.native is None:
        pytest.skip("this server has no native listener")
    pair = (where.kafka, where.native) if leaver == "native" else (where.native, where.kafka)
    share_and_go_on(where, factory, topic, *pair)


def share_and_go_on(where: Where, factory: ConsumerFactory, topic: str, stays: str, leaves: str) -> None:
    produce(where, topic, 0, 400)
    first = factory.consumer(stays, topic)
    values = poll_until(lambda: len(first.assignment) == 4, first)
    second = factory.consumer(leaves, topic)
    while len(values) < 400:
        values += poll_until(lambda: True, first)
    first.commit()
    values += poll_until(lambda: len(first.assignment) == len(second.assignment) == 2, first, second)
    assert sorted(first.assignment + second.assignment) == [(topic, number) for number in range(4)]
    assert first.member.generation_id == second.member.generation_id
    produce(where, topic, 400, 800)
    while len(values) < 800:
        values += poll_until(lambda: True, first, second)
    assert sorted(values) == sorted(b"%d" % number for number in range(800))
    first.commit()
    second.commit()
    second.close()
    late = poll_until(lambda: len(first.assignment) == 4, first)
    produce(where, topic, 800, 900)
    while len(late) < 100:
        late += poll_until(lambda: True, first)
    assert sorted(late) == [b"%d" % number for number in range(800, 900)]


def test_a_member_beats_while_its_application_fetches_and_is_slow(
    where: Where, factory: ConsumerFactory, topic: str
) -> None:
    """Two session timeouts long: a fetch that waits holds up no heartbeat."""
    consumer = factory.consumer(where.kafka, topic, session_timeout_ms=6_000, heartbeat_interval_ms=1_000)
    poll_until(lambda: len(consumer.assignment) == 4, consumer)
    generation = consumer.member.generation_id
    time.sleep(9.0)
    consumer.poll(0.1)
    assert consumer.member.generation_id == generation
    assert consumer.member.is_steady


def test_a_member_that_waits_to_join_can_still_ask_and_leave(where: Where, topic: str) -> None:
    """The coordinator holds its JoinGroup back for a member that does not come: nothing else waits behind that."""
    absent = GroupMember(where.kafka, topic, [topic], heartbeat_interval_ms=500, max_poll_interval_ms=30_000)
    assert absent.poll(20)
    waiting = GroupMember(where.kafka, topic, [topic])
    assert not waiting.poll(1.0)
    started = time.monotonic()
    assert set(waiting.committed(absent.assignment, timeout_s=5).values()) == {None}
    assert waiting.member_id
    closing = threading.Thread(target=waiting.close)
    closing.start()
    closing.join(20)
    assert time.monotonic() - started < 15
    with ClusterClient(where.kafka) as connection:
        reply = connection.ask(DescribeGroups((topic,)))
    assert isinstance(reply, DescribeGroupsReply)
    assert [member.member_id for member in reply.groups[0].members] == [absent.member_id]
    absent.close()


def test_a_static_member_comes_back_to_what_it_had(where: Where, factory: ConsumerFactory, topic: str) -> None:
    produce(where, topic, 0, 10)
    first = factory.consumer(where.kafka, topic, group_instance_id="one")
    poll_until(lambda: len(first.assignment) == 4, first)
    member, generation = first.member.member_id, first.member.generation_id
    first.close()
    again = factory.consumer(where.kafka, topic, group_instance_id="one")
    poll_until(lambda: len(again.assignment) == 4, again)
    assert again.member.generation_id == generation
    assert again.member.member_id != member


def test_in_the_oldest_versions_it_is_all_the_same(
    where: Where, factory: ConsumerFactory, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server here knows the oldest versions alone."""
    spoken: dict[type[Message], int] = {}

    def oldest(message: Message, offered: Mapping[int, ApiVersion]) -> int:
        key = BY_MESSAGE[type(message)].key
        for version in range(offered[key].min_version, offered[key].max_version + 1):
            with suppress(NoCommonVersion):
                spoken[type(message)] = choose(message, {key: ApiVersion(key, version, version)})
                return spoken[type(message)]
        return choose(message, offered)

    monkeypatch.setattr(kafka, "choose", oldest)
    share_and_go_on(where, factory, topic, where.kafka, where.kafka)
    assert spoken[Fetch] == 4
    assert spoken[FindCoordinator] < 4
    assert spoken[OffsetFetch] < 8


@pytest.fixture(scope="module")
def classic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Where]:
    """A server where members assign, and nothing else is offered."""
    settings = (*SETTINGS, "group.coordinator.rebalance.protocols=classic")
    with running(tmp_path_factory.mktemp("classic") / "data", *settings, with_kafka=True) as daemon:
        yield Where(f"kafka://127.0.0.1:{daemon.kafka_port}", daemon.bootstrap)


@pytest.mark.parametrize("dialect", ["native", "kafka"])
def test_where_members_assign_one_that_may_choose_is_classic_and_another_is_refused(
    classic: Where, factory: ConsumerFactory, name: str, dialect: str
) -> None:
    topic = name
    make_topic(classic, topic, 4)
    assert classic.native is not None
    bootstrap = classic.native if dialect == "native" else classic.kafka
    first = factory.consumer(bootstrap, topic, group_protocol="auto")
    second = factory.consumer(bootstrap, topic)
    poll_until(lambda: len(first.assignment) == len(second.assignment) == 2, first, second)
    third = factory.consumer(bootstrap, topic, group_protocol="consumer")
    with pytest.raises(Refused) as refused:
        poll_until(lambda: False, third)
    assert refused.value.error_code is ErrorCode.UNSUPPORTED_VERSION
