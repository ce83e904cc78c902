"""`muster doctor` at a running Apache Kafka, whose groups no musterd serves."""

import json
from collections.abc import Iterator
from contextlib import ExitStack

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from bench import builds
from interop.kafka_cluster import kafka_cluster
from muster import Consumer, Producer, TopicPartition
from tests.edges.musterd import within
from tests.edges.test_cli import Shell
from tests.edges.transactional_kafka import PARTITIONS, make_topics

pytestmark = pytest.mark.long
_PROBLEMS = 6
"""Exit code."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ExitStack() as stack:
        try:
            builds.kafka_jars(may_fetch=False)
            cluster = stack.enter_context(kafka_cluster(tmp_path_factory.mktemp("kafka"), 1))
        except builds.NotHere as missing:
            pytest.skip(str(missing))
        yield f"kafka://{cluster.bootstrap}"


def _owns_all(readers: list[Consumer]) -> bool:
    for reader in readers:
        reader.poll(0.05)
    return sum(len(reader.assignment) for reader in readers) == PARTITIONS and all(one.assignment for one in readers)


def test_a_whole_group_is_well_and_one_that_waits_for_a_member_is_not(kafka: str) -> None:
    make_topics(kafka, "orders")
    shell = Shell(kafka)
    with ExitStack() as stack:
        readers = [stack.enter_context(Consumer(kafka, "pay", client_id=f"pay-{number}")) for number in range(2)]
        for reader in readers:
            reader.subscribe(["orders"])
        assert within(40, lambda: _owns_all(readers), every_s=0)
        assert json.loads(shell.run("doctor", "pay", "--json")[0]) == {"problems": []}
        late = stack.enter_context(Consumer(kafka, "pay", client_id="pay-late"))
        late.subscribe(["orders"])
        assert within(40, lambda: late.poll(0.1) or "PreparingRebalance" in shell.run("groups", "list")[0])
        found = json.loads(shell.run("doctor", "pay", "--json", code=_PROBLEMS)[0])
        (problem,) = found["problems"]
        assert (problem["kind"], problem["group_id"]) == ("join_held_up", "pay"), problem


def test_offsets_below_the_start_of_the_log_are_named(kafka: str) -> None:
    make_topics(kafka, "letters")
    with Producer(kafka) as producer:
        for number in range(5):
            producer.send("letters", b"%d" % number, partition=0)
    with Consumer(kafka, "post") as reader:
        reader.assign([TopicPartition("letters", 0)])
        reader.commit({TopicPartition("letters", 0): 1})
    admin = AdminClient({"bootstrap.servers": kafka.removeprefix("kafka://")})
    for deleted in admin.delete_records([confluent_kafka.TopicPartition("letters", 0, 4)]).values():
        deleted.result(30)
    shell = Shell(kafka)
    (problem,) = json.loads(shell.run("doctor", "post", "--json", code=_PROBLEMS)[0])["problems"]
    assert (problem["kind"], problem["records"]) == ("offsets_out_of_range", 3), problem
    out, _ = shell.run("doctor", "post", code=_PROBLEMS)
    assert "letters-0" in out and "groups reset post --to-earliest" in out, out
