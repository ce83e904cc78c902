import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.partition_key import MAX_TOPIC_CHARACTERS, PartitionKey, may_be_keyed, parse_key


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a:b",
        "1:t:x",
        "1:t:-1",
        "01:t:0",
        "1:t:00",
        "1:t:0:0",
        "1::0",
        "1:9t:0",
        "+1:t:0",
        " 1:t:0",
        "1:t:0\n",
        "1:t:2147483648",
        "1:t:99999999999",
        "1:t e:0",
        "\u0661:t:0",
        f"1:{'t' * (MAX_TOPIC_CHARACTERS + 1)}:0",
    ],
)
def test_what_is_no_key_is_none(text: str) -> None:
    assert parse_key(text) is None


def test_a_key_is_read_as_it_is_written() -> None:
    assert parse_key("1:demo:0") == PartitionKey(1, "demo", 0)
    assert str(PartitionKey(12, "my-topic.v1", 30)) == "12:my-topic.v1:30"


def test_keys_are_sorted_by_their_numbers_and_never_as_text() -> None:
    keys = [PartitionKey(2, "b", 10), PartitionKey(10, "b", 9), PartitionKey(2, "b", 9), PartitionKey(9, "a", 10)]
    assert [str(key) for key in sorted(keys, key=lambda key: key.place)] == ["9:a:10", "2:b:9", "2:b:10", "10:b:9"]


@given(st.integers(0, 2**31 - 1), st.from_regex(r"[A-Za-z][A-Za-z0-9._-]{0,63}", fullmatch=True), st.integers(0, 9_999))
def test_every_key_reads_back(broker_id: int, topic: str, partition: int) -> None:
    assert may_be_keyed(topic)
    key = PartitionKey(broker_id, topic, partition)
    assert parse_key(str(key)) == key


def test_topics_of_other_names_have_no_keys() -> None:
    assert not may_be_keyed("__consumer_offsets")
    assert not may_be_keyed("t" * 65)
    assert may_be_keyed("t" * 64)
