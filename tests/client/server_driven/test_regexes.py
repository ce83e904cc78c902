"""A subscription to a regular expression that the coordinator matches (docs/spec/consumer-group-protocol.md#6)."""

import pytest

from membership.events import Assigned, Fatal, Revoked, Subscribed, SubscribedToPattern, SubscribedToRegex
from muster import Consumer, GroupMember
from muster.net.dialects.versions import NoCommonVersion, choose
from protocol.apis import BY_MESSAGE
from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat
from protocol.messages.groups import JoinGroup
from protocol.messages.node import ApiVersion
from protocol.messages.topics import Metadata
from tests.client.member_rig import MemberRig
from tests.client.server_driven.rig import GROUP, T0, T1, ServerDrivenRig, refused
from tests.client.server_driven.test_auto import AutoRig


def matching(regex: str = "t.*") -> ServerDrivenRig:
    """A member that joined for a regular expression, and was told of nothing yet, as is usual."""
    rig = ServerDrivenRig(topics=())
    needed_poll = rig.member.needs_poll
    assert not needed_poll
    rig.feed(SubscribedToRegex(regex))
    assert rig.member.needs_poll
    rig.poll().find()
    return rig


def test_the_coordinator_is_told_the_expression_and_brings_what_matches() -> None:
    rig = matching()
    beat = rig.last_beat
    assert (beat.subscribed_topic_regex, beat.subscribed_topic_names, beat.member_epoch) == ("t.*", (), 0)
    rig.hear(1)
    assert rig.told == [Assigned((), 1, ())]
    assert rig.member.is_steady
    assert not rig.member.has_nothing_to_read, "who knows what matches"
    rig.pass_time(5_000)
    beat = rig.last_beat
    assert (beat.subscribed_topic_regex, beat.subscribed_topic_names) == (None, None)
    rig.hear(2, T0, T1)
    rig.name_topics()
    assert rig.told == [Assigned((T0, T1), 2, (T0, T1))]
    assert Metadata(None) not in rig.sent, "no list of all topics is asked for"


def test_after_an_error_the_expression_is_said_again() -> None:
    rig = matching()
    rig.hear(1)
    rig.pass_time(5_000)
    _ = rig.sent
    rig.answer(refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    rig.pass_time(1_000)
    assert rig.last_beat.subscribed_topic_regex == "t.*"


def test_another_subscription_takes_its_place_and_says_so() -> None:
    rig = matching()
    rig.hear(1)
    _ = rig.sent, rig.told
    rig.feed(SubscribedToRegex("u.*"))
    assert rig.last_beat.subscribed_topic_regex == "u.*"
    rig.hear(1, unchanged=True)
    rig.feed(Subscribed(("t",)))
    beat = rig.last_beat
    assert (beat.subscribed_topic_regex, beat.subscribed_topic_names) == ("", ("t",)), "else it would stay"
    rig.answer(refused(ErrorCode.REQUEST_TIMED_OUT))
    rig.pass_time(1_000)
    assert rig.last_beat.subscribed_topic_regex == "", "the coordinator may not have heard"
    rig.hear(2, T0)
    rig.name_topics()
    rig.hear(2, unchanged=True)
    assert rig.member.is_steady
    _ = rig.sent
    rig.feed(SubscribedToRegex("t"))
    beat = rig.last_beat
    assert (beat.subscribed_topic_regex, beat.subscribed_topic_names) == ("t", ())
    rig.hear(2, unchanged=True)
    rig.feed(SubscribedToPattern("u"))
    assert rig.member.held == (T0,)


def test_nothing_at_all_ends_the_membership() -> None:
    rig = matching()
    rig.hear(1)
    rig.pass_time(5_000)
    rig.hear(2, T0)
    rig.name_topics()
    rig.hear(2, unchanged=True)
    _ = rig.sent, rig.told
    rig.feed(Subscribed(()))
    rig.poll()
    assert rig.told == [Revoked((T0,))]
    rig.let_go()
    assert rig.beats[-1].member_epoch == -1
    assert not rig.member.needs_poll


def test_an_expression_that_is_none_and_a_coordinator_that_matches_none_are_the_applications() -> None:
    for code, sentence in (
        (ErrorCode.INVALID_REGULAR_EXPRESSION, "'t(' is no regular expression of RE2"),
        (ErrorCode.UNSUPPORTED_VERSION, "matches no regular expressions, as 't(' is to be"),
    ):
        for kind in (ServerDrivenRig, AutoRig):
            rig = kind(topics=())
            rig.feed(SubscribedToRegex("t("))
            rig.poll().find()
            rig.answer(refused(code))
            (fatal,) = rig.told
            assert isinstance(fatal, Fatal)
            assert fatal.error_code is code
            assert sentence in fatal.reason
            assert not [message for message in rig.sent if isinstance(message, JoinGroup)]


def test_a_classic_member_cannot_have_one() -> None:
    rig = AutoRig()
    rig.poll().find()
    rig.answer(refused(ErrorCode.UNSUPPORTED_VERSION))
    for one in (rig, MemberRig()):
        _ = one.told
        one.feed(SubscribedToRegex("t.*"))
        (fatal,) = one.told
        assert isinstance(fatal, Fatal)
        assert "'t.*' cannot be matched" in fatal.reason


def test_it_is_said_in_a_version_that_has_a_place_for_it() -> None:
    key = BY_MESSAGE[ConsumerGroupHeartbeat].key
    beat = ConsumerGroupHeartbeat(GROUP, "m", 0, subscribed_topic_regex="t")
    assert choose(beat, {key: ApiVersion(key, 0, 1)}) == 1
    with pytest.raises(NoCommonVersion, match="is needed in version 1, and the server offers 0 to 0"):
        choose(beat, {key: ApiVersion(key, 0, 0)})
    assert choose(ConsumerGroupHeartbeat(GROUP, "m", 0, subscribed_topic_regex=""), {key: ApiVersion(key, 0, 0)}) == 0


def test_the_faces_refuse_what_cannot_be() -> None:
    with Consumer("127.0.0.1:1", GROUP) as consumer, GroupMember("127.0.0.1:1", GROUP, ()) as member:
        for one in (consumer, member):
            with pytest.raises(ValueError, match="the coordinator matches patterns of groups that it balances"):
                one.subscribe_pattern("t")
    with Consumer("127.0.0.1:1", GROUP, group_protocol="auto") as consumer:
        with pytest.raises(ValueError, match="a regular expression is wanted"):
            consumer.subscribe_pattern("")
        consumer.subscribe_pattern("t")
        consumer.unsubscribe()
