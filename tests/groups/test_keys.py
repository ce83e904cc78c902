"""Keys of waiting operations differ by kind, whatever names clients choose."""

from collections.abc import Hashable
from itertools import combinations
from typing import get_args

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from coordinator.config.config import Config
from coordinator.keys import MemberKey, OperationKey
from protocol.messages.groups import JoinGroup, JoinProtocol
from tests.transcripts.rig import Rig

KINDS = get_args(OperationKey)
NAMES = st.sampled_from(("", "phase", "lease", "balanced lease", "chore", "fetch", "topic", "m", "g")) | st.text()
NUMBERS = st.integers(-1, 2)


@given(st.data())
def test_no_two_kinds_of_waiting_are_equal(data: st.DataObject) -> None:
    first, second = data.draw(st.sampled_from(list(combinations(KINDS, 2))))
    texts, numbers = data.draw(st.tuples(NAMES, NAMES)), data.draw(st.tuples(NUMBERS, NUMBERS))

    def made(kind: type[msgspec.Struct]) -> Hashable:
        fields = msgspec.structs.fields(kind)
        return kind(*(texts[at] if one.type is str else numbers[at] for at, one in enumerate(fields)))

    assert made(first) != made(second)
    assert len({made(first), made(second)}) == 2
    assert made(first) == made(first)
    assert made(first) != tuple(texts) != made(second)


def test_a_group_named_like_a_member_of_a_group_named_phase_leaves_its_session_alone() -> None:
    def join(group_id: str) -> JoinGroup:
        return JoinGroup(group_id, 10_000, "", "consumer", (JoinProtocol("range", b""),), 60_000, "i")

    with Rig(Config(group_initial_rebalance_delay_ms=0), lambda _line: None, lambda *_answer: None) as rig:
        link = rig.open_link()
        rig.send(link, join("phase"))
        rig.wait(1)
        (member_id,) = rig.node.core.directory["phase"].classic.members
        assert MemberKey("phase", member_id) in rig.node.core.purgatory
        rig.send(link, join(member_id))
        assert MemberKey("phase", member_id) in rig.node.core.purgatory
        rig.wait(300_000)
        assert not rig.node.core.directory["phase"].classic.members, "nobody has heard of it for long"
