"""Patterns of topics' names (docs/spec/consumer-group-protocol.md#6.1), scenarios 48 and 50."""

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.groups.consumer.regex import compile_pattern, resolve
from protocol.regular_expression import InvalidPattern
from tests.groups.consumer.generators import finish, pieces_of


@pytest.mark.parametrize(
    ("pattern", "topic", "matches"),
    [
        ("foo", "foo", True),
        ("foo", "foobar", False),
        ("foo|zz", "foobar", False),
        ("foo|foobar", "foobar", True),
        ("foo.*", "foobar", True),
        ("oo", "foo", False),
        ("__consumer.*", "__consumer_offsets", True),
        ("", "", True),
        ("(?i)FOO", "foo", True),
        (r"\Qa.b\E", "a.b", True),
        (r"\Qa.b\E", "axb", False),
        (r"t\d{3}", "t123", True),
        ("(?P<team>a|b)-.*", "b-orders", True),
        (r"\pL+", "größe", True),
    ],
)
def test_a_pattern_matches_whole_names(pattern: str, topic: str, matches: bool) -> None:
    """Scenario 50."""
    assert compile_pattern(pattern).matches(topic) is matches


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "[",
        ")",
        "*",
        "a**",
        "a{1001}",
        "(?!x)a",
        "(?=x)a",
        "(?<=x)a",
        r"(a)\1",
        r"\Z",
        "a++",
        r"\C",
        r"a\\\C",
        "\ud800",
    ],
)
def test_what_does_not_compile_is_refused_with_a_reason(pattern: str) -> None:
    """Scenario 48."""
    with pytest.raises(InvalidPattern) as refused:
        compile_pattern(pattern)
    assert str(refused.value)
    assert not str(refused.value).startswith("b'")


def test_a_reason_names_the_part_that_is_wrong() -> None:
    with pytest.raises(InvalidPattern, match=re.escape(r"invalid escape sequence: \1")):
        compile_pattern(r"(a)\1")


@pytest.mark.parametrize("pattern", [r"\\C", r"\Q\C\E", r"\QC", "C"])
def test_a_letter_that_is_no_escape_sequence_is_a_letter(pattern: str) -> None:
    compile_pattern(pattern)


def test_a_pattern_that_needs_too_much_memory_is_refused() -> None:
    with pytest.raises(InvalidPattern, match="too large"):
        compile_pattern(r"((\pL|\pN){100}){10}")


def test_a_pattern_is_compiled_once() -> None:
    assert compile_pattern("once.*") is compile_pattern("once.*")


def test_patterns_that_make_others_backtrack_take_no_longer() -> None:
    """With 30 letters an engine that backtracks would take minutes."""
    assert not compile_pattern("(a+)+b").matches("a" * 240)
    assert not compile_pattern("(a?){100}a{100}").matches("a" * 99)


@given(st.text(max_size=20))
def test_any_text_is_a_pattern_or_refused(text: str) -> None:
    with suppress(InvalidPattern):
        compile_pattern(text).matches("orders")


# --- resolution ---


def test_patterns_are_resolved_against_all_names_in_their_order() -> None:
    topics = ["__consumer_offsets", "a-1", "a-2", "b-1"]
    found = finish(resolve(["a-.*", ".*1", "zz", ".*"], topics))
    assert found == {"a-.*": ("a-1", "a-2"), ".*1": ("a-1", "b-1"), "zz": (), ".*": tuple(topics)}


def test_many_names_are_matched_in_pieces() -> None:
    costs, _ = pieces_of(resolve([".*-1"], [f"orders-{number}" for number in range(5_000)]))
    assert len(costs) > 15
    assert max(costs) < 2_000, "microseconds, estimated"


def test_names_that_come_and_go_meanwhile_do_not_count() -> None:
    topics = [f"orders-{number}" for number in range(1_000)]
    work = resolve([".*"], topics)
    next(work)
    topics.clear()
    assert len(finish(work)[".*"]) == 1_000
