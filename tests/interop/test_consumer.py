"""Outcomes of others' consumers that the server balances, and of franz-go's own tests. No server runs here."""

from collections import Counter

from interop import catalogue, franz_go
from interop.builds import CLIENTS as FOLDERS
from interop.consumer.page import table
from interop.consumer.playing import CLIENTS, COMPANIONS, failures
from interop.consumer.rolling import first_seen, longest_wait
from interop.consumer.stories import STORIES, WITH_COMPANION
from interop.processes import Record
from interop.table import Result, Verdict

SAID = """round 1 of 2: passed in 11 s
--- PASS: TestGroupETL (11.68s)
    --- PASS: TestGroupETL/range (5.63s)
    --- SKIP: TestGroupETL/range/848 (0.00s)
round 2 of 2: FAILED after 3 s, see x
--- FAIL: TestGroupETL (11.68s)
    --- FAIL: TestGroupETL/range (5.63s)
    --- PASS: TestGroupETL/range/848 (0.00s)
"""


def test_variants_of_franz_gos_tests_are_counted() -> None:
    found = franz_go.read(SAID)
    assert set(found) == set(franz_go.VARIANTS)
    assert found["TestGroupETL/range"] == Counter(PASS=1, FAIL=1)
    assert not franz_go.is_whole(found, 2)
    assert franz_go.is_whole({"x": Counter(PASS=2)}, 2)
    assert not franz_go.is_whole({"x": Counter(PASS=1)}, 2), "a round without it is no success"
    lines = franz_go.printed({"muster": found}, 2).splitlines()
    assert "| TestGroupETL/range | 1, 1 failed |" in lines
    assert "| TestGroupETL/range/848 | 1, 1 skipped |" in lines


def test_the_table_has_a_column_a_server_and_says_what_is_alike_once() -> None:
    alike, apart = Result("static", Verdict.PASSED, "as it was", 3.0), Result("static", Verdict.FAILED, "a|b", 1.0)
    found = {
        ("java", "static"): {"kafka": alike, "muster": alike},
        ("java", "range"): {"kafka": alike, "muster": apart},
    }
    text = table(found, ("kafka", "muster"), {"kafka": "Kafka", "muster": "musterd"})
    assert text.splitlines() == [
        "| client | story | Kafka | musterd |",
        "| --- | --- | --- | --- |",
        "| java | static | ok, 3 s | ok, 3 s |",
        "| java | range | ok, 3 s | **failed** |",
        "",
        "* java, static, Kafka and musterd: as it was",
        "* java, range, Kafka: as it was",
        "* java, range, musterd: FAILED: a\\|b",
    ]
    assert failures(found) == ["java, range: a|b"]
    assert failures({("java", "range"): {"kafka": apart, "muster": alike}}) == [], "what Kafka refuses fails nothing"


def test_a_record_that_is_read_again_counts_from_when_it_was_read_first() -> None:
    again = [Record(0, 7, "x", seen_at=9.0)], [Record(0, 7, "x", seen_at=4.0), Record(1, 0, "y", seen_at=5.0)]
    seen = first_seen(again)
    assert seen == {(0, 7): 4.0, (1, 0): 5.0}
    assert longest_wait({(0, 7): 3.5, (1, 0): 2.0}, seen) == 3.0
    assert longest_wait({}, seen) == 0.0


def test_stories_of_two_clients_are_stories() -> None:
    assert set(STORIES) >= WITH_COMPANION


def test_every_client_is_there_and_has_a_companion_of_another_kind() -> None:
    assert set(COMPANIONS) == set(CLIENTS)
    for client in CLIENTS:
        assert COMPANIONS[client] != client
        assert catalogue.read((FOLDERS / client / "client.toml").read_bytes()).driven
