"""Results of our own client among others, and their printed page."""

import pytest

from interop.builds import CLIENTS
from interop.catalogue import Client
from interop.catalogue import read as read_client
from interop.ours import mixed, page
from interop.ours.parts import KAFKA, MUSTERD, OTHERS, OURS, PARTS, Choice
from interop.ours.suite import Case, Suite, read
from interop.processes import Failed, Record
from interop.table import PAGE, Result, Row, Verdict, spliced
from tests.architecture.tree import project

REPORT = b"""<?xml version="1.0"?><testsuites><testsuite>
<testcase name="test_it_works" time="1.5"/>
<testcase name="test_both_dialects[native]" time="0.5"><skipped message="no native&#10;listener"/></testcase>
<testcase name="test_it_fails" time="1"><failure message="assert 1 == 2">trace</failure></testcase>
<testcase name="test_it_never_began" time="0"><error message="no topic"/></testcase>
</testsuite></testsuites>"""
WRITTEN = [(0, "a"), (0, "b"), (1, "c")]


def records(*of: tuple[int, int, str]) -> list[Record]:
    return [Record(*one) for one in of]


def test_a_report_says_what_passed_was_skipped_and_why_and_what_failed() -> None:
    assert read(REPORT) == Suite(
        1,
        (Case("both dialects[native]", "no native\nlistener"),),
        (Case("it fails", "assert 1 == 2"), Case("it never began", "no topic")),
        3.0,
    )


def test_the_page_has_a_line_a_server_and_each_test_that_was_left_out_with_its_reason() -> None:
    text = page.suites({MUSTERD: Suite(3, seconds=2.4), "Kafka": read(REPORT), "other": "there is no `java` here"})
    assert "| musterd | 3 | 0 | 0 | 2 |" in text
    assert "| Kafka | 1 | 1 | 2 | 3 |" in text
    assert "* Kafka, skipped: both dialects[native]: no native listener" in text
    assert "* Kafka, FAILED: it fails: assert 1 == 2" in text
    assert "| other | not here |" in text and "there is no `java` here" in text


def test_a_record_that_nobody_read_is_told_of() -> None:
    mixed.check_read(WRITTEN, [records((0, 0, "a"), (0, 1, "b")), records((1, 0, "c"))], [])
    with pytest.raises(Failed, match=r"1 of 3 records were read by nobody, e.g. \[\(0, 'b'\)\]"):
        mixed.check_read(WRITTEN, [records((0, 0, "a")), records((1, 0, "c"))], [])


def test_only_what_a_killed_member_read_may_be_read_again() -> None:
    one, killed = records((0, 0, "a"), (0, 1, "b"), (1, 0, "c")), records((0, 1, "b"))
    mixed.check_read(WRITTEN, [one, killed], [one])
    with pytest.raises(Failed, match=r"1 records were read twice, e.g. \[\(0, 1\)\]"):
        mixed.check_read(WRITTEN, [one, killed], [one, killed])
    with pytest.raises(Failed, match="1 records were read twice"):
        mixed.check_read(WRITTEN, [one], [[*one, one[0]]])


def test_a_sticky_group_moves_no_partition_that_could_stay() -> None:
    before = {"a": frozenset({0, 1, 2, 3})}
    mixed.check_kept("b came", before, {"a": frozenset({1, 3}), "b": frozenset({0, 2})})
    with pytest.raises(Failed, match=r"b came: a had \[0, 1, 2, 3\] and was given \[3, 4\], though it could keep more"):
        mixed.check_kept("b came", before, {"a": frozenset({3, 4}), "b": frozenset({0, 1, 2, 5})})


def test_a_group_agrees_only_on_what_all_of_it_have() -> None:
    assert mixed.common(["java"]) == ["range", "roundrobin", "sticky", "cooperative-sticky"]
    assert mixed.common(["java", "confluent-kafka"]) == ["range", "roundrobin", "cooperative-sticky"]
    assert all((CLIENTS / name).is_dir() for names in OTHERS.values() for name in names)


def test_everything_is_every_group_and_a_choice_is_a_part_of_it() -> None:
    assert len(list(Choice().groups())) == 4 + 3 + 3
    assert list(Choice(others=("java",), assignors=("sticky",)).groups()) == [("java", "sticky")]


def test_a_row_at_another_server_says_what_was_seen_there() -> None:
    client = Client("x", "1", "C", "./x", capabilities=("configs",), driven=("mixed", "server_crash"))
    row = Row(client, (Result("configs", Verdict.PASSED, "a | b"), Result("mixed", Verdict.FAILED, "two\nlines")))
    lines = page.capabilities(row, KAFKA, None).splitlines()
    assert lines[2:] == [
        "| configs | ok | a \\| b |",
        "| mixed | **failed** | two lines |",
        "| server crash | - | only a musterd may be killed |",
    ]
    absent = page.capabilities(Row(client, ()), KAFKA, "no Java")
    assert "| mixed | not here | no Java |" in absent


@pytest.mark.parametrize("folder", OURS)
def test_our_own_clients_are_of_the_version_that_is_here(folder: str) -> None:
    client = read_client((CLIENTS / folder / "client.toml").read_bytes())
    assert client.version == project()["project"]["version"]


def test_groups_are_a_table_of_servers() -> None:
    results = {MUSTERD: Result("mixed", Verdict.PASSED, "seen", 30.2), KAFKA: Result("mixed", Verdict.FAILED, "lost")}
    text = page.groups({("java", "range"): results}, (MUSTERD, KAFKA))
    assert "| java | range | ok, 30 s | **failed** |" in text
    assert f"* java, range, {KAFKA}: FAILED: lost" in text


@pytest.mark.parametrize("part", PARTS)
def test_the_page_has_a_place_for_each_part(part: str) -> None:
    assert "\n\nnew\n" in spliced(PAGE.read_text(), "new", f"printed by make interop, {part}")
