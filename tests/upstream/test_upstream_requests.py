"""Questions to the cluster: each has its call, and the request behind them goes on once."""

from coordinator.clock import Moment
from coordinator.gateway.effects import UpstreamRequest
from coordinator.gateway.events import UpstreamReply
from coordinator.gateway.upstream_requests import UpstreamRequestDone, UpstreamRequests
from protocol.messages.topics import Metadata, MetadataReply
from protocol.session import RequestRef

NOW = Moment(1_000, 0)
REF = RequestRef(1, 2)


def test_a_request_goes_on_when_its_last_question_is_answered() -> None:
    effects: list[UpstreamRequest] = []
    requests = UpstreamRequests(5_000, effects.append)
    delayed = requests.send(((Metadata(None), 1), (Metadata(()), 2)), REF, Metadata(), NOW)
    first, second = effects
    assert (first.broker, second.broker) == (1, 2)
    assert len(effects) == 2
    asked, waiting = requests.on_reply(UpstreamReply(second.call_id, MetadataReply(cluster_id="b")))
    assert asked is not None
    assert (asked.message, asked.broker, asked.asked_ms) == (Metadata(()), 2, 1_000)
    assert waiting == [delayed]
    assert not delayed.is_satisfied()
    requests.on_reply(UpstreamReply(first.call_id, None, "away"))
    assert delayed.is_satisfied()
    assert requests.on_done(delayed.completed()) is delayed
    assert list(delayed.answers.values()) == [None, MetadataReply(cluster_id="b")]


def test_an_answer_that_comes_too_late_is_none() -> None:
    effects: list[UpstreamRequest] = []
    requests = UpstreamRequests(5_000, effects.append)
    delayed = requests.send(((Metadata(None), None),), REF, Metadata(), NOW)
    assert delayed.deadline_ms == 6_000
    (effect,) = effects
    requests.on_done(delayed.completed())
    assert requests.pending_request(effect.call_id) is None
    assert requests.on_reply(UpstreamReply(effect.call_id, MetadataReply())) == (None, [])


def test_an_answer_is_for_all_who_wait_for_it() -> None:
    effects: list[UpstreamRequest] = []
    requests = UpstreamRequests(5_000, effects.append)
    first = requests.send(((Metadata(None), None),), REF, Metadata(), NOW)
    (effect,) = effects
    later = Moment(4_000, 0)
    second = requests.send((), RequestRef(2, 3), Metadata(), later, joined=(effect.call_id,))
    assert len(effects) == 1
    assert (second.deadline_ms, second.requests) == (9_000, first.requests)
    assert requests.on_reply(UpstreamReply(effect.call_id, MetadataReply()))[1] == [first, second]
    assert second.is_satisfied()


def test_who_goes_takes_no_answer_from_others() -> None:
    effects: list[UpstreamRequest] = []
    requests = UpstreamRequests(5_000, effects.append)
    first = requests.send(((Metadata(None), None),), REF, Metadata(), NOW)
    (effect,) = effects
    second = requests.send((), RequestRef(2, 3), Metadata(), NOW, joined=(effect.call_id,))
    assert requests.on_done(UpstreamRequestDone(first.number)) is first
    assert requests.pending_request(effect.call_id) is not None
    assert requests.on_reply(UpstreamReply(effect.call_id, MetadataReply()))[1] == [second]
    assert requests.on_done(UpstreamRequestDone(second.number)) is second


def test_there_is_an_end_to_what_is_asked_at_once() -> None:
    effects: list[UpstreamRequest] = []
    requests = UpstreamRequests(5_000, effects.append)
    count = 0
    while not requests.is_full:
        requests.send(((Metadata(None), None),), REF, Metadata(), NOW)
        count += 1
    assert count == 10_000
