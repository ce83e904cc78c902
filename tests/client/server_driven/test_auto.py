"""A member that takes the group protocol which the coordinator offers, and what settings say about it."""

import pytest

from membership.core import Membership
from membership.events import Assigned, Fatal, Subscribed
from membership.member import MemberSettings
from membership.server_driven import AutoMembership, ServerDrivenMembership, make_membership
from muster.client.member import member_settings_of
from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat
from protocol.messages.groups import JoinGroup
from tests.client.member_rig import GROUP, P0, MemberRig
from tests.client.server_driven.rig import T0, ServerDrivenRig, refused


class AutoRig(ServerDrivenRig):
    def make(self, topics: tuple[str, ...], jitter: float) -> Membership:
        return AutoMembership(self.settings, topics, lambda: jitter)


def test_the_coordinator_assigns_where_it_offers_that() -> None:
    rig = AutoRig().holding(T0)
    assert isinstance(rig.member, AutoMembership)
    assert not rig.member.is_classic
    assert rig.member.held == (T0,)
    rig.pass_time(5_000)
    assert rig.last_beat.member_epoch == 2


def test_a_coordinator_that_offers_nothing_of_it_gets_a_classic_member() -> None:
    rig = AutoRig()
    rig.poll().find()
    _ = rig.sent
    rig.answer(refused(ErrorCode.UNSUPPORTED_VERSION))
    assert rig.told == []
    (join,) = (message for message in rig.sent if isinstance(message, JoinGroup))
    assert join.member_id == ""
    assert [protocol.name for protocol in join.protocols] == ["range", "roundrobin"]
    MemberRig.join(rig)
    MemberRig.sync(rig, P0)
    assert rig.told == [Assigned((P0,), 1, (P0,))]
    assert rig.member.is_steady is True
    rig.feed(Subscribed(("t", "u")))
    assert rig.member.needs_poll
    rig.pass_time(9_000)
    assert "Heartbeat" in rig.sent_kinds
    assert not [message for message in rig.sent if isinstance(message, ConsumerGroupHeartbeat)]


def test_another_refusal_is_the_applications() -> None:
    rig = AutoRig()
    rig.poll().find()
    rig.answer(refused(ErrorCode.GROUP_MAX_SIZE_REACHED))
    (fatal,) = rig.told
    assert isinstance(fatal, Fatal)
    assert fatal.error_code is ErrorCode.GROUP_MAX_SIZE_REACHED


# --- settings ---


@pytest.mark.parametrize(
    ("protocol", "core"), [("classic", Membership), ("consumer", ServerDrivenMembership), ("auto", AutoMembership)]
)
def test_the_setting_chooses_the_core(protocol: str, core: type[Membership]) -> None:
    settings = MemberSettings(group_id=GROUP, group_protocol=protocol)
    assert type(make_membership(settings, ("t",), lambda: 0.5)) is core


def test_the_classic_protocol_is_the_default() -> None:
    assert member_settings_of(GROUP, None, {}).group_protocol == "classic"


def test_an_unknown_protocol_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="group_protocol is 'streams', it must be one of classic, consumer, auto"):
        member_settings_of(GROUP, None, {"group_protocol": "streams"})


def test_assignors_of_members_and_of_the_coordinator_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="assignors are of the classic protocol"):
        member_settings_of(GROUP, None, {"group_protocol": "consumer", "assignors": ["sticky"]})
    with pytest.raises(ValueError, match="server_assignor is of groups that the coordinator balances"):
        member_settings_of(GROUP, None, {"server_assignor": "range"})
    assert member_settings_of(GROUP, None, {"group_protocol": "consumer", "server_assignor": "range"}).server_assignor


def test_a_member_with_assignors_of_its_own_is_classic_where_it_may_choose() -> None:
    assert (
        member_settings_of(GROUP, None, {"group_protocol": "auto", "assignors": "sticky"}).group_protocol == "classic"
    )
    assert member_settings_of(GROUP, None, {"group_protocol": "auto"}).group_protocol == "auto"
