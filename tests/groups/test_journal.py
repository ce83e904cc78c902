import json
import sys

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from coordinator.records.records import Note
from coordinator.runtime.journal import Journal, decode_note, encode_note
from protocol.messages.groups import ListNotes, OffsetChange, Origin


def note(
    group_id: str = "g",
    kind: str = "rebalance",
    cause: str = "member left",
    *,
    detail: str = "because",
    subject: str = "",
    wall_ms: int = 17,
) -> Note:
    return Note(group_id, kind, cause, "m-1", detail, 3, 2, "Stable", wall_ms, subject=subject)


def filled(count: int, limit: int = 100) -> Journal:
    journal = Journal(limit)
    for _ in range(count):
        journal.add(note())
    return journal


def numbers(journal: Journal, group_id: str = "g", **fields: int) -> list[int]:
    return [listed.number for listed in journal.list(ListNotes(group_id, **fields)).notes]


def added(journal: Journal, one: Note) -> Note:
    kept = journal.add(one)
    assert kept is not None
    return kept


def test_notes_of_a_group_are_numbered_one_by_one_and_groups_by_themselves() -> None:
    journal = Journal(10)
    first = [added(journal, one) for one in (note("a"), note("b"), note("a"))]
    assert [one.number for one in first] == [0, 0, 1]
    assert [added(journal, one).number for one in (note("a"), note("b"))] == [2, 1]


def test_the_oldest_make_room() -> None:
    journal = filled(5, limit=3)
    assert numbers(journal) == [2, 3, 4]
    assert len(journal) == 3


def test_the_newest_are_listed_unless_a_place_is_named() -> None:
    journal = filled(5)
    assert numbers(journal, limit=2) == [3, 4]
    assert numbers(journal, after=1, limit=2) == [2, 3]
    assert numbers(journal, after=4) == []
    assert numbers(journal, limit=0) == []
    assert numbers(journal, limit=-5) == []


def test_a_group_nobody_noted_has_no_notes() -> None:
    assert Journal(1).list(ListNotes("nowhere")).notes == ()


def test_rebalances_are_counted_by_cause_when_they_happen_and_not_when_they_are_read_again() -> None:
    journal = Journal(10)
    journal.add(note())
    journal.add(note(kind="completed"))
    journal.add(note(cause="member joined"))
    journal.load(replace(note(), number=3))
    assert journal.rebalances == {"member left": 1, "member joined": 1}
    journal.add(replace(note(kind="epoch"), group_state="Stable"))
    journal.add(replace(note(kind="epoch"), group_state="Assigning"))  # the same rebalance goes on
    journal.add(note(kind="target", cause="target assignment computed"))
    assert journal.rebalances == {"member left": 2, "member joined": 1}
    assert journal.tallies.of("g").rebalances == 3


def test_expired_groups_are_told_by_time_and_bounded() -> None:
    journal = Journal(10)
    for number in range(10_005):
        journal.add(note(f"g-{number}", "expired", "group expired", wall_ms=number))
    assert journal.expired(10_003) == ("g-10003", "g-10004")
    assert len(journal.expired(0)) == 10_000


def test_numbering_goes_on_after_notes_were_read_again() -> None:
    journal = Journal(10)
    journal.load(replace(note(), number=0))
    assert added(journal, note()).number == 1


def test_a_note_reads_back_from_its_bytes() -> None:
    key, value = encode_note(note("gr\u00fcn"))
    assert key.decode() == "gr\u00fcn"
    assert decode_note(value) == note("gr\u00fcn")
    assert b'"cause":"member left"' in value, "people can read it"


def test_notes_of_the_release_before_and_of_the_next_one_are_read() -> None:
    """A field that an origin lacks is empty, and one that is not known is ignored."""
    origin = Origin("app", "/10.0.0.1", 7, "kafka", "User:app", "CN=app serial=01")
    _key, value = encode_note(replace(note(), origin=origin))
    with_it = json.loads(value)
    assert with_it["origin"].pop("certificate") == "CN=app serial=01"
    assert decode_note(json.dumps(with_it).encode()) == replace(note(), origin=replace(origin, certificate=""))
    with_it["origin"]["from_the_next_release"] = 1
    assert decode_note(json.dumps(with_it).encode()) == replace(note(), origin=replace(origin, certificate=""))
    assert b"certificate" not in encode_note(replace(note(), origin=replace(origin, certificate="")))[1]


def test_what_is_listed_says_all_that_was_noted() -> None:
    listed = filled(1).list(ListNotes("g")).notes[0]
    assert (listed.generation_id, listed.cause, listed.initiator, listed.detail) == (3, "member left", "m-1", "because")
    assert (listed.kind, listed.members, listed.group_state, listed.wall_ms) == ("rebalance", 2, "Stable", 17)


# --- bytes ---


def test_the_oldest_of_all_groups_make_room_for_bytes() -> None:
    journal = Journal(200, max_bytes=20_000)
    for group_id in ("quiet", "busy", *["busy"] * 100):
        journal.add(note(group_id, detail="x" * 1_000))
    assert journal.kept_bytes <= 20_000
    assert numbers(journal, "quiet") == []
    assert numbers(journal, "busy") == list(range(101))[-len(journal) :]
    assert len(journal) > 10


def test_many_groups_with_few_notes_are_bounded_like_one_with_many() -> None:
    journal = Journal(200, max_bytes=1 << 20)
    for number in range(10_000):
        journal.add(note(f"console-consumer-{number}"))
    kept = list(journal.notes())
    counted = sum(map(sys.getsizeof, kept)) + sum(sys.getsizeof(one.group_id) for one in kept)
    assert counted < journal.kept_bytes <= 1 << 20
    assert [one.group_id for one in kept][-1] == "console-consumer-9999"
    assert kept[0].group_id == f"console-consumer-{10_000 - len(kept)}", "the oldest went"


def test_a_group_whose_notes_made_room_gets_no_number_twice() -> None:
    journal = Journal(100, max_bytes=20_000)
    first = [added(journal, note("billing")).number for _ in range(3)]
    for _ in range(100):
        journal.add(note("other"))
    assert numbers(journal, "billing") == []
    assert added(journal, note("billing")).number > max(first)


def test_names_in_changes_count_as_memory() -> None:
    journal = Journal(100)
    for topic in ("t", "t" * 8_000):
        before = journal.kept_bytes
        journal.add(replace(note(), act="reset", changes=(OffsetChange(topic, 0, 1, 2),)))
        grown = journal.kept_bytes - before
        assert len(topic) < grown < len(topic) + 1_000


def test_one_note_is_kept_however_long_it_is() -> None:
    journal = Journal(200, max_bytes=1_000)
    journal.add(note("a"))
    journal.add(note("b", detail="x" * 5_000))
    assert (numbers(journal, "a"), numbers(journal, "b")) == ([], [0])


GROUPS, SUBJECTS = ("a", "b", "c"), ("", "instance 1", "instance 2")


@given(
    st.lists(
        st.tuples(st.sampled_from(GROUPS), st.sampled_from(SUBJECTS), st.integers(0, 400), st.integers(0, 300_000)),
        max_size=200,
    ),
    st.integers(1, 8),
)
def test_what_is_kept_is_counted_and_ordered_whatever_came(told: list[tuple[str, str, int, int]], limit: int) -> None:
    journal, now_ms, written, newest = Journal(limit, max_bytes=6_000), 0, [], None
    for group_id, subject, size, after_ms in told:
        now_ms += after_ms
        newest = note(group_id, detail="x" * size, subject=subject, wall_ms=now_ms)
        written.append(journal.add(newest))
        assert journal.kept_bytes <= 6_000 or len(journal) == 1
    kept = list(journal.notes())
    assert len(journal) == len(kept)
    assert len(journal._order) == len(kept) + sum(one.dropped for one in journal._groups.values())
    for group_id in GROUPS:
        of_group = [one for one in kept if one.group_id == group_id]
        assert len(of_group) <= limit
        assert [one.number for one in of_group] == sorted({one.number for one in of_group})
    again = Journal(limit, max_bytes=6_000)
    for one in kept:
        again.load(one)
    assert again.kept_bytes == journal.kept_bytes, "what was counted is what is there"
    if newest is not None:
        assert any(one.wall_ms == newest.wall_ms and one.group_id == newest.group_id for one in kept)


def test_places_of_notes_that_made_room_do_not_pile_up() -> None:
    journal = Journal(5)
    journal.add(note("quiet"))
    for _ in range(20_000):
        journal.add(note("busy"))
    assert len(journal._order) < 3_000
    assert numbers(journal, "quiet") == [0]
    assert numbers(journal, "busy") == [19_995, 19_996, 19_997, 19_998, 19_999]


# --- repetitions ---


def replaced(instance: str = "orders-1", wall_ms: int = 0) -> Note:
    return note(kind="replaced", cause="static member replaced", subject=f"instance {instance}", wall_ms=wall_ms)


def summary(journal: Journal) -> list[tuple[str, int, int]]:
    return [(one.kind, one.times, one.since_ms) for one in journal.list(ListNotes("g")).notes]


def test_a_war_of_two_static_members_is_one_growing_note() -> None:
    journal = Journal(20)
    journal.add(note(wall_ms=1))
    journal.add(note(kind="completed", wall_ms=2))
    for wall_ms in range(1_000, 31_000, 100):
        journal.add(replaced(wall_ms=wall_ms))
    assert summary(journal) == [("rebalance", 1, 1), ("completed", 1, 2), ("replaced", 300, 1_000)]
    assert journal.list(ListNotes("g")).notes[-1].wall_ms == 30_900
    journal.add(note(cause="member joined", wall_ms=40_000))
    journal.add(replaced(wall_ms=41_000))
    assert summary(journal)[2:] == [("replaced", 300, 1_000), ("rebalance", 1, 40_000), ("replaced", 1, 41_000)]


def test_a_war_that_rebalances_each_time_is_three_growing_notes() -> None:
    journal = Journal(20)
    journal.add(note(kind="admin", cause="told", wall_ms=0))
    for wall_ms in range(1, 100):
        journal.add(note(cause="static member replaced", subject="instance 1", wall_ms=wall_ms))
        journal.add(note(kind="completed", cause="rebalance completed", wall_ms=wall_ms))
        journal.add(note(kind="assigned", cause="partitions assigned", wall_ms=wall_ms))
    assert summary(journal) == [("admin", 1, 0), ("rebalance", 99, 1), ("completed", 99, 1), ("assigned", 99, 1)]
    assert journal.rebalances == {"static member replaced": 99}


def test_wars_of_several_instances_at_once_are_a_note_each() -> None:
    journal = Journal(20)
    for wall_ms in range(90):
        journal.add(replaced(f"orders-{wall_ms % 3}", wall_ms))
    assert sorted(summary(journal)) == [("replaced", 30, 0), ("replaced", 30, 1), ("replaced", 30, 2)]


def test_a_process_that_is_restarted_now_and_then_is_at_war_with_nobody() -> None:
    journal = Journal(20)
    for day in range(3):
        journal.add(replaced(wall_ms=day * 86_400_000))
    assert [times for _kind, times, _since in summary(journal)] == [1, 1, 1]


def test_the_log_gets_a_repetition_when_its_count_has_doubled_and_so_does_who_reads_on() -> None:
    journal, written, heard, after = Journal(20), [], [], -1
    for wall_ms in range(100):
        if (kept := journal.add(replaced(wall_ms=wall_ms))) is not None:
            written.append(kept)
        for listed in journal.list(ListNotes("g", after=after)).notes:
            heard.append(listed.times)
            after = listed.number
    assert [one.times for one in written] == heard == [1, 2, 4, 8, 16, 32, 64]
    assert numbers(journal) == [6]


def test_a_war_that_was_read_again_goes_on_in_the_same_note() -> None:
    journal, again = Journal(20), Journal(20)
    long_ms = 900_000  # so slow that its notes in the log are further apart than those that fold
    for wall_ms in range(0, 100 * long_ms // 2, long_ms // 2):
        kept = journal.add(replaced(wall_ms=wall_ms))
        if kept is not None:
            again.load(decode_note(encode_note(kept)[1]))
    assert [times for _kind, times, _since in summary(again)] == [64]
    again.add(replaced(wall_ms=64 * long_ms // 2))
    assert summary(again) == [("replaced", 65, 0)]


# --- notes of other nodes ---


def test_notes_of_two_nodes_are_one_history_and_no_number_stands_for_two() -> None:
    here, there = Journal(200), Journal(200)
    for journal, detail in ((here, "here"), (there, "there"), (there, "there again")):
        told = journal.add(note("g", detail=detail))
        assert told is not None
        here.merge(told)
        there.merge(told)
    shown = [(one.number, one.detail) for one in here.list(ListNotes("g")).notes]
    assert shown == [(0, "here"), (1, "there"), (2, "there again")]
    late = note("g", detail="numbered by a node that had not heard yet")
    here.merge(late)
    here.merge(late)
    assert numbers(here, "g") == [0, 1, 2, 3], "and what is told twice is kept once"
    assert here.rebalances == {"member left": 1}, "each rebalance is counted where it was"
