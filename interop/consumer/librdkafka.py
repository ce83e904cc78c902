"""Questions to confluent-kafka's AdminClient about a group that the server balances."""

from collections.abc import Callable
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from interop.program import Options, check, until

_TIMEOUT_S = 20.0


def consumer_groups(options: Options) -> str:
    """Ask what is told of the group, alter its offsets, delete it. librdkafka has no settings of groups."""
    group, topic = options.group, options.topic
    admin = AdminClient({"bootstrap.servers": options.bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(_TIMEOUT_S)
    settings = {"bootstrap.servers": options.bootstrap, "group.id": group, "group.protocol": "consumer"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    partitions = {(topic, 0), (topic, 1)}
    try:
        consumer.subscribe([topic])
        until(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 2, "two partitions", 60.0)
        consumer.commit(offsets=[TopicPartition(topic, 0, 1), TopicPartition(topic, 1, 2)], asynchronous=False)
        listed = admin.list_consumer_groups(types={ConsumerGroupType.CONSUMER}).result(_TIMEOUT_S)
        check(group in [one.group_id for one in listed.valid], f"not listed: {listed.valid}, {listed.errors}")
        described = _described(admin, group)
        check(described.type is ConsumerGroupType.CONSUMER, f"described as {described.type}")
        check(described.state is ConsumerGroupState.STABLE, f"described as {described.state}")
        for told in (described.members[0].assignment, described.members[0].target_assignment):
            found = {(one.topic, one.partition) for one in told.topic_partitions} if told is not None else set()
            check(found == partitions, f"described with {found}")
        _refused(KafkaError.NON_EMPTY_GROUP, lambda: _delete(admin, group))
    finally:
        consumer.close()
    until(lambda: _described(admin, group).state is ConsumerGroupState.EMPTY, "empty")
    check(_offsets(admin, options) == [1, 2], f"offsets are {_offsets(admin, options)}")
    altered = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 1, 1)])
    admin.alter_consumer_group_offsets([altered])[group].result(_TIMEOUT_S)
    check(_offsets(admin, options) == [1, 1], f"altered offsets are {_offsets(admin, options)}")
    _delete(admin, group)
    listed = admin.list_consumer_groups().result(_TIMEOUT_S)
    check(group not in [one.group_id for one in listed.valid], "listed after it was deleted")
    return (
        "listed by type, described with assignment and target; not deleted with a member; offsets read and altered, "
        "group deleted"
    )


def _described(admin: AdminClient, group: str) -> Any:
    return admin.describe_consumer_groups([group])[group].result(_TIMEOUT_S)


def _delete(admin: AdminClient, group: str) -> None:
    admin.delete_consumer_groups([group])[group].result(_TIMEOUT_S)


def _offsets(admin: AdminClient, options: Options) -> list[int]:
    wanted = [TopicPartition(options.topic, partition) for partition in (0, 1)]
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(options.group, wanted)])
    return [one.offset for one in asked[options.group].result(_TIMEOUT_S).topic_partitions]


def _refused(code: int, request: Callable[[], None]) -> None:
    try:
        request()
    except KafkaException as error:
        check(error.args[0].code() == code, f"refused with {error}")
    else:
        check(False, f"not refused with {code}")
