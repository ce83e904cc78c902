"""Questions to the cluster: each has its call, and the request behind them goes on once."""

from coordinator.events import UpstreamAnswered
from coordinator.moment import Moment
from coordinator.upstream.asking import AskDone, Asking
from protocol.messages.topics import Metadata, MetadataReply
from protocol.session import RequestRef

NOW = Moment(1_000, 0)
REF = RequestRef(1, 2)


def test_a_request_goes_on_when_its_last_question_is_answered() -> None:
    asking = Asking(5_000)
    delayed = asking.ask(((Metadata(None), 1), (Metadata(()), 2)), REF, Metadata(), NOW)
    first, second = asking.take_effects()
    assert (first.broker, second.broker) == (1, 2)
    assert asking.take_effects() == []
    assert asking.answered(UpstreamAnswered(second.call_id, MetadataReply(cluster_id="b"))) is delayed
    assert not delayed.is_satisfied()
    asking.answered(UpstreamAnswered(first.call_id, None, "away"))
    assert delayed.is_satisfied()
    assert asking.done(delayed.completed()) is delayed
    assert list(delayed.answers.values()) == [None, MetadataReply(cluster_id="b")]


def test_an_answer_that_comes_too_late_is_none() -> None:
    asking = Asking(5_000)
    delayed = asking.ask(((Metadata(None), None),), REF, Metadata(), NOW)
    assert delayed.deadline_ms == 6_000
    (effect,) = asking.take_effects()
    asking.done(AskDone((effect.call_id,)))
    assert asking.answered(UpstreamAnswered(effect.call_id, MetadataReply())) is None


def test_there_is_an_end_to_what_is_asked_at_once() -> None:
    asking = Asking(5_000)
    count = 0
    while not asking.is_full:
        asking.ask(((Metadata(None), None),), REF, Metadata(), NOW)
        count += 1
    assert count == 10_000
