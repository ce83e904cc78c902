"""Mistakes of applications are raised by the call that makes them."""

import re
from collections.abc import Callable
from operator import index
from typing import Any

import pytest

from membership.checks import check_name, check_number, check_partitions
from muster import OffsetToCommit, Producer, TopicPartition
from muster.core.completions import to_commit
from muster.core.consumer_state import CommitSettings
from muster.core.fetching.settings import FetchSettings
from muster.core.positions import ConsumerPositions
from muster.core.producing import ProducerSettings
from muster.core.producing.handles import Handle, Headers, pending
from muster.core.subscriptions import topic_names

ONE = TopicPartition("t", 0)


class Whole:
    """A number of another library."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __index__(self) -> int:
        return self._number


class Nobody:
    def deliver(self, offset: int, append_time_ms: int) -> None: ...

    def fail(self, error: Exception) -> None: ...


NOBODY: Handle = Nobody()


def record(key: Any = None, value: Any = None, headers: Any = (), timestamp_ms: Any = 0) -> Any:
    return pending(key, value, headers, timestamp_ms, NOBODY)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"value": [1, 2]}, "the value is a list: bytes, a text or None is wanted"),
        ({"key": 5}, "the key is a int"),
        ({"headers": {"a": 3}}, "header 'a' is a int"),
        ({"headers": [(b"a", b"b")]}, "a header is"),
        ({"headers": {"\ud800": b""}}, "surrogates not allowed"),
        ({"timestamp_ms": 1.5}, "timestamp_ms is 1.5, it must be a whole number"),
        ({"timestamp_ms": 1 << 63}, "timestamp_ms is 9223372036854775808, it must be 9223372036854775807 at most"),
    ],
)
def test_what_is_no_record_is_refused_before_it_is_among_others(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        record(**given)


def test_a_record_is_taken_as_it_is_now_and_text_is_encoded() -> None:
    changing = bytearray(b"now")
    headers: Headers = {"a": memoryview(b"now"), "b": None, "c": "ü"}  # type: ignore[dict-item]
    taken = record("ü", changing, headers, Whole(7))
    changing[:] = b"later"
    assert (taken.key, taken.value, taken.timestamp_ms) == ("ü".encode(), b"now", 7)
    assert taken.headers == (("a", b"now"), ("b", None), ("c", "ü".encode()))


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (lambda: FetchSettings(min_bytes=-1), "fetch_min_bytes"),
        (lambda: FetchSettings(max_wait_ms=1 << 31), "fetch_max_wait_ms"),
        (lambda: FetchSettings(max_bytes=0), "fetch_max_bytes"),
        (lambda: FetchSettings(partition_max_bytes=0), "max_partition_fetch_bytes"),
        (lambda: FetchSettings(request_timeout_ms=0), "request_timeout_ms"),
        (lambda: FetchSettings(retry_backoff_ms=-1), "retry_backoff_ms"),
        (lambda: FetchSettings(metadata_max_age_ms=0.5), "metadata_max_age_ms"),  # type: ignore[arg-type]
        (lambda: CommitSettings(interval_ms=-1), "auto_commit_interval_ms"),
        (lambda: ProducerSettings(retry_backoff_ms=0.5), "retry_backoff_ms"),  # type: ignore[arg-type]
        (lambda: ProducerSettings(linger_ms=-1), "linger_ms"),
        (lambda: ProducerSettings(batch_bytes=0), "batch_bytes"),
        (lambda: ProducerSettings(request_timeout_ms=1 << 31, delivery_timeout_ms=1 << 32), "request_timeout_ms"),
        (lambda: Producer("127.0.0.1:1", delivery_timeout_ms=0), "delivery_timeout_ms"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(settings: Callable[[], object], name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} is .*, it must be "):
        settings()


@pytest.mark.parametrize("offset", [1 << 63, -1, 1.0, "1", None])
def test_offsets_that_no_log_can_have_are_neither_sought_nor_committed(offset: Any) -> None:
    subscription = ConsumerPositions()
    subscription.assign([ONE])
    subscription.seek(ONE, 3)
    with pytest.raises(ValueError, match=r"^cannot seek to .* in t-0: an offset is .*, it must be"):
        subscription.seek(ONE, offset)
    assert subscription.position(ONE) == 3
    with pytest.raises(ValueError, match=r"^cannot commit .* for t-0: an offset is .*, it must be"):
        to_commit({ONE: offset})


def test_numbers_of_other_libraries_are_numbers() -> None:
    subscription = ConsumerPositions()
    subscription.assign([ONE])
    subscription.seek(ONE, Whole(5))  # type: ignore[arg-type]
    assert subscription.position(ONE) == 5
    committed = to_commit({ONE: OffsetToCommit(Whole(5), "word")})  # type: ignore[arg-type]
    assert committed == {ONE: OffsetToCommit(5, "word")}
    assert check_partitions([TopicPartition("t", Whole(0))]) == (ONE,)  # type: ignore[arg-type]
    assert check_number("n", Whole(1), 0) == index(Whole(1))


@pytest.mark.parametrize("name", ["\ud800", b"t", 5, "t" * 40_000])
def test_names_that_cannot_be_sent_are_refused(name: Any) -> None:
    with pytest.raises(ValueError, match=r"must be a text|surrogates"):
        check_name("a topic", name)
    with pytest.raises(ValueError, match=r"must be a text|surrogates"):
        topic_names([name], None)
    with pytest.raises(ValueError, match=r"must be a text|surrogates"):
        to_commit({ONE: OffsetToCommit(1, name)})


@pytest.mark.parametrize("one", [("t", 0), TopicPartition("t", -1), TopicPartition("t", 1 << 31), "t"])
def test_what_is_no_partition_is_not_assigned(one: Any) -> None:
    with pytest.raises(ValueError, match=r"no TopicPartition|a partition of 't' is"):
        check_partitions([one])


def test_a_pattern_that_is_none_is_refused_before_anything_is_chosen() -> None:
    with pytest.raises(ValueError, match=r"the pattern '\(' is no regular expression: missing \)"):
        topic_names((), "(")
