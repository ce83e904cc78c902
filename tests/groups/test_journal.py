from coordinator.journal import Journal, decode_note, encode_note
from coordinator.records import Note
from protocol.messages.groups import ListNotes


def note(group_id: str = "g", kind: str = "rebalance", cause: str = "member left") -> Note:
    return Note(group_id, kind, cause, "m-1", "because", 3, 2, "Stable", 17)


def filled(count: int, limit: int = 100) -> Journal:
    journal = Journal(limit)
    for _ in range(count):
        for one in journal.number([note()]):
            journal.add(one)
    return journal


def numbers(journal: Journal, **fields: int) -> list[int]:
    return [listed.number for listed in journal.list(ListNotes("g", **fields)).notes]


def test_notes_of_a_group_are_numbered_one_by_one_and_groups_by_themselves() -> None:
    journal = Journal(10)
    first = journal.number([note("a"), note("b"), note("a")])
    assert [one.number for one in first] == [0, 0, 1]
    for one in first:
        journal.add(one)
    assert [one.number for one in journal.number([note("a"), note("b")])] == [2, 1]


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
    journal.add(note(), live=True)
    journal.add(note(kind="completed"))
    journal.add(note(cause="member joined"))
    journal.add(note(), live=False)
    assert journal.rebalances == {"member left": 1, "member joined": 1}


def test_numbering_goes_on_after_notes_were_read_again() -> None:
    journal = Journal(10)
    journal.add(journal.number([note()])[0], live=False)
    assert journal.number([note()])[0].number == 1


def test_a_note_reads_back_from_its_bytes() -> None:
    key, value = encode_note(note("gr\u00fcn"))
    assert key.decode() == "gr\u00fcn"
    assert decode_note(value) == note("gr\u00fcn")
    assert b'"cause":"member left"' in value, "people can read it"


def test_what_is_listed_says_all_that_was_noted() -> None:
    listed = filled(1).list(ListNotes("g")).notes[0]
    assert (listed.generation_id, listed.cause, listed.initiator, listed.detail) == (3, "member left", "m-1", "because")
    assert (listed.kind, listed.members, listed.group_state, listed.wall_ms) == ("rebalance", 2, "Stable", 17)
