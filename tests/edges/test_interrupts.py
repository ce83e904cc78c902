"""A Ctrl-C, or what an application's own code raises, wherever it comes: no commit goes beyond what was handed out."""

from collections.abc import Iterator

import pytest

from muster import Consumer, MusterError, Producer, TopicPartition
from muster.blocking import ClusterClient
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.edges.musterd import Daemon, forget, running, within

ONLY = TopicPartition("t", 0)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("interrupts") / "data", "group.initial.rebalance.delay.ms=0") as daemon:
        yield daemon


@pytest.fixture
def daemon(served: Daemon) -> Iterator[Daemon]:
    """The module's, with five records and without a group."""
    with ClusterClient(served.bootstrap) as connection:
        connection.ask(CreateTopics((CreatableTopic("t", 1),)))
    with Producer(served.bootstrap) as producer:
        for number in range(5):
            producer.send("t", b"%d" % number)
    yield served
    forget(served, ["t"], ["g"])


def offsets(consumer: Consumer, wanted: int) -> list[int]:
    seen: list[int] = []

    def are_enough() -> bool:
        seen.extend(record.offset for record in consumer.poll(0.05))
        return len(seen) >= wanted

    assert within(15, are_enough)
    return seen


@pytest.mark.parametrize("step", ["feed", "hand_out"])
def test_a_ctrl_c_between_taking_records_and_returning_them_commits_nothing_of_them(
    daemon: Daemon, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Consumer(daemon.bootstrap, "g", auto_offset_reset="earliest") as consumer:
        consumer.assign([ONLY])
        assert consumer.position(ONLY, 10) == 0
        assert within(10, lambda: consumer._consuming.fetcher.has_something)

        def interrupted(*_arguments: object) -> None:
            raise KeyboardInterrupt

        where = consumer._driver if step == "feed" else consumer._consuming
        for _ in range(2):
            with monkeypatch.context() as patch:
                patch.setattr(where, step, interrupted)
                with pytest.raises(KeyboardInterrupt):
                    consumer.poll(1)
            assert consumer.positions() == {ONLY: 0}
            assert offsets(consumer, 5) == list(range(5))
            consumer.seek(ONLY, 0)
            assert within(10, lambda: consumer._consuming.fetcher.has_something)
        with monkeypatch.context() as patch:
            patch.setattr(where, step, interrupted)
            with pytest.raises(KeyboardInterrupt):
                consumer.poll(1)
    with Consumer(daemon.bootstrap, "g") as after:
        assert after.committed([ONLY], 10)[ONLY] in {None, 0}


def test_a_listener_that_fails_in_unsubscribe_does_not_end_the_commits_before_later_revocations(daemon: Daemon) -> None:
    def fails(_partitions: object) -> None:
        raise ZeroDivisionError

    with Consumer(daemon.bootstrap, "g", auto_offset_reset="earliest", auto_commit_interval_ms=600_000) as consumer:
        consumer.subscribe(["t"], on_revoked=fails)
        assert offsets(consumer, 5) == list(range(5))
        with pytest.raises(ZeroDivisionError):
            consumer.unsubscribe()
        with pytest.raises(MusterError, match="nothing is subscribed"):
            consumer.poll(0)
        assert consumer.assignment == ()
        consumer.subscribe(["t"])
        assert offsets(consumer, 5) == list(range(5))
    with Consumer(daemon.bootstrap, "g") as after:
        assert after.committed([ONLY], 10) == {ONLY: 5}
