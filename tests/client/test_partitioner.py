"""Keys go where Kafka's clients put them: kafka-python and aiokafka judge."""

from aiokafka.partitioner import murmur2 as aiokafka_murmur2
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_murmur2

from muster.core.producing.partitioner import murmur2, partition_of


@settings(deadline=None)
@given(key=st.binary(max_size=40))
def test_the_hash_is_the_one_of_every_other_client(key: bytes) -> None:
    assert murmur2(key) == kafka_murmur2(key) & 0xFFFFFFFF == aiokafka_murmur2(key) & 0xFFFFFFFF


@settings(deadline=None)
@given(key=st.binary(max_size=40), count=st.integers(1, 50))
def test_a_partition_is_always_there(key: bytes, count: int) -> None:
    assert 0 <= partition_of(key, count) < count
