"""Due times of groups: the first of several counts, and a change makes a group due at once."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator.runtime.expiry_schedule import NEXT_PASS_MS, ExpirySchedule

GROUPS = st.sampled_from("abcd")
DEEDS = st.one_of(
    st.tuples(st.just("change"), GROUPS, st.just(NEXT_PASS_MS)),
    st.tuples(st.just("forward"), GROUPS, st.integers(-20, 20)),
    st.tuples(st.just("remove"), GROUPS, st.just(0)),
)


@given(st.lists(DEEDS), st.integers(-21, 21))
def test_it_is_what_a_dictionary_of_first_times_says(deeds: list[tuple[str, str, int]], wall_ms: int) -> None:
    schedule, first = ExpirySchedule(), dict[str, int]()
    for deed, group_id, due_ms in deeds:
        if deed == "remove":
            schedule.remove(group_id)
            first.pop(group_id, None)
            continue
        first[group_id] = min(first.get(group_id, due_ms), due_ms)
        if deed == "change":
            schedule.note_change(group_id)
        else:
            schedule.bring_forward(group_id, due_ms)
    assert {group_id: schedule.get(group_id) for group_id in first} == first
    assert sorted(schedule.due(wall_ms)) == sorted(group_id for group_id in first if first[group_id] <= wall_ms)
