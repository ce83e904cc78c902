from hypothesis import given
from hypothesis import strategies as st

from coordinator.groups.classic.election import elect_leader, elect_protocol, elect_protocol_if
from coordinator.groups.classic.group_states import GroupSettings
from coordinator.groups.classic.state import ClassicGroup, Member
from protocol.messages.groups import JoinProtocol
from protocol.session import RequestRef


def offer(*names: str) -> tuple[JoinProtocol, ...]:
    return tuple(JoinProtocol(name, b"") for name in names)


def group_of(*offers: tuple[str, ...], parked: bool = True) -> ClassicGroup:
    group = ClassicGroup("g", GroupSettings())
    for number, names in enumerate(offers):
        ref = RequestRef(1, number) if parked else None
        group.add(Member(f"m{number}", None, "c", "/h", 10_000, 60_000, offer(*names), join_ref=ref))
    return group


def chosen(*offers: tuple[str, ...]) -> str | None:
    group = group_of(*offers)
    return elect_protocol(group, group.members["m0"])


def test_only_what_everyone_offers_can_be_chosen() -> None:
    assert chosen(("range", "roundrobin"), ("roundrobin", "x")) == "roundrobin"


def test_each_votes_for_its_first_candidate_and_most_votes_win() -> None:
    assert chosen(("range", "rr"), ("rr", "range"), ("rr", "range")) == "rr"


def test_a_name_that_is_no_candidate_takes_no_vote() -> None:
    assert chosen(("x", "range", "rr"), ("y", "rr", "range"), ("rr", "range")) == "rr"


def test_a_tie_goes_to_the_earliest_in_the_leaders_offer() -> None:
    assert chosen(("rr", "range"), ("range", "rr")) == "rr"
    assert chosen(("range", "rr"), ("rr", "range")) == "range"


def test_nothing_in_common_chooses_nothing() -> None:
    assert chosen(("range",), ("rr",)) is None


def test_what_would_be_chosen_if_one_offered_otherwise() -> None:
    group = group_of(("range", "rr"), ("range", "rr"))
    assert elect_protocol_if(group, group.members["m1"], offer("rr")) == "rr"
    assert elect_protocol_if(group, group.members["m0"], offer("range", "rr")) == "range"
    assert elect_protocol_if(group, group.members["m0"], offer("x")) is None
    assert [p.name for p in group.members["m1"].protocols] == ["range", "rr"], "asking changes nothing"


@given(st.lists(st.permutations(("a", "b", "c")), min_size=1, max_size=6))
def test_the_choice_is_one_of_the_most_wanted(offers: list[list[str]]) -> None:
    wanted = [names[0] for names in offers]
    winner = chosen(*map(tuple, offers))
    assert winner is not None
    assert wanted.count(winner) == max(map(wanted.count, wanted))


def test_the_leader_that_has_joined_stays() -> None:
    group = group_of(("range",), ("range",))
    assert elect_leader(group) is group.members["m0"]


def test_a_leader_that_has_not_joined_gives_way_to_the_first_that_has() -> None:
    group = group_of(("range",), ("range",), ("range",))
    group.take_join(group.members["m0"])
    assert elect_leader(group) is group.members["m1"]


def test_where_nobody_has_joined_nobody_leads() -> None:
    assert elect_leader(group_of(("range",), parked=False)) is None


@given(
    st.lists(st.lists(st.sampled_from(("range", "rr", "sticky")), min_size=1, unique=True), min_size=1, max_size=5),
    st.lists(st.sampled_from(("range", "rr", "sticky", "x")), min_size=1, unique=True),
    st.data(),
)
def test_a_changed_offer_elects_what_asking_everybody_anew_would(
    offers: list[list[str]], changed: list[str], data: st.DataObject
) -> None:
    group = group_of(*[tuple(names) for names in offers])
    leader = group.members[group.leader or ""]
    group.protocol_name = elect_protocol(group, leader)
    member = data.draw(st.sampled_from(list(group.members.values())))
    told = elect_protocol_if(group, member, offer(*changed))
    group.offer(member, offer(*changed))
    assert told == elect_protocol(group, leader)
