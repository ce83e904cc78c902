"""Connectors that come and go under load: docs/spec/consumer-client.md#H.78 to #H.80."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from random import Random

import pytest

from membership.topic_partition import TopicPartition
from protocol.messages.data import Fetch
from protocol.messages.ownership import ClaimPartitions
from tests.client.consumer_rig import P
from tests.client.streams.order import check_order
from tests.client.streams.rig import ConnectorRig, SimApplication


def test_h78_a_second_member_joins_under_load_and_nothing_comes_twice_or_is_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = ConnectorRig(monkeypatch).make("t", 4)

    def load(left: int) -> None:
        rig.append(*P[:4], count=3)
        if left:
            rig.after(7, lambda: load(left - 1))

    load(300)
    old = rig.player("old").reads(t=2).iterates(every_ms=3, at_most=2)
    rig.run(500)
    new = rig.player("new").reads(t=2).iterates(every_ms=3, at_most=2)
    rig.settled(old, new)
    rig.until(lambda: len(rig.handed_out()) >= 4 * 903)
    for number in range(4):
        assert [offset for _, one, offset in rig.handed_out() if one == number] == list(range(903))
    moved = {("t", number) for number in new.owned["t"]}
    assert len(moved) == 2
    committed = next(at for at, one in enumerate(rig.log) if (one.who, one.what) == ("old", "OffsetCommit"))
    later = [one.about[:2] for one in rig.log[committed:] if (one.who, one.what) == ("old", "handed out")]
    assert later
    assert moved.isdisjoint(later)


class Churn(ConnectorRig):
    """A hundred joins and leaves; the registry is looked at whenever time passes, as often as anything can happen."""

    def __init__(self, patch: pytest.MonkeyPatch, seed: int) -> None:
        self.chance = Random(seed)
        self.sampled = 0
        self.violations: list[str] = []
        self.granted: dict[tuple[TopicPartition, int], str] = {}
        self.epochs: dict[TopicPartition, int] = defaultdict(int)
        self.reading: dict[TopicPartition, str] = {}
        super().__init__(patch)
        self.make("t", 6)

    def _now(self, now_ms: int) -> None:
        super()._now(now_ms)
        _, group = self.node.node.core.find("orders")
        for held in group.classic.owners or () if group is not None else ():
            one = TopicPartition(held.topic, held.partition)
            assert held.owner is not None
            self.sampled += 1
            if self.granted.setdefault((one, held.epoch), held.owner.member_id) != held.owner.member_id:
                self.violations.append(f"{one} has two owners in epoch {held.epoch}")
            if held.epoch < self.epochs[one]:
                self.violations.append(f"the epoch of {one} went back")
            self.epochs[one] = held.epoch

    def write(self, who: str, what: str, about: object = None) -> None:
        """Every message handed out is of a partition that the registry has for whoever hands it out."""
        super().write(who, what, about)
        if what == "handed out" and isinstance(about, tuple):
            player = next(one for one in self.players if one.who == who)
            owner = next((held for held in self.owners() if (held.topic, held.partition) == about[:2]), None)
            if owner is None or owner.member_id != player.connector.member_id:
                self.violations.append(f"{who} handed out {about}, which is {owner}'s")
        if what == "Fetch" and isinstance(about, Fetch):
            self._check(about)

    def _check(self, fetch: Fetch) -> None:
        for topic in fetch.topics:
            for part in topic.partitions:
                one = TopicPartition(topic.topic, part.partition)
                if self.granted.get((one, part.owner_epoch)) != fetch.member_id:
                    self.violations.append(f"{one} fetched by {fetch.member_id} without a grant: {part.owner_epoch}")

    def play(self, times: int) -> None:
        playing: list[SimApplication] = []
        for number in range(times):
            if playing and (len(playing) == 5 or self.chance.random() < 0.45):
                playing.pop(self.chance.randrange(len(playing))).leave()
            else:
                one = self.player(f"p{number}", rebalance_backoff_ms=200, auto_commit_interval_ms=500)
                playing.append(
                    one.reads(t=self.chance.randint(1, 3)).iterates(every_ms=self.chance.choice((5, 20, 90)))
                )
            self.append(P[self.chance.randrange(6)], count=self.chance.randint(1, 30))
            self.run(self.chance.choice((0, 3, 50, 400)))
        if not playing:
            playing.append(self.player("last").reads(t=1).iterates())
        self.run(3_000)
        self.settled(*playing)


@pytest.fixture(scope="module")
def churn() -> Iterator[Churn]:
    with pytest.MonkeyPatch.context() as patch:
        churn = Churn(patch, seed=7)
        churn.play(100)
        yield churn


def test_h79_each_rebalance_goes_through_its_steps_in_their_order(churn: Churn) -> None:
    assert sum(check_order(one for one in churn.log if one.who == player.who) for player in churn.players) > 100
    for player in churn.players:
        assert player.errors == []
        for told, after in pairwise(churn.of("before_releasing", "ReleasePartitions", who=player.who)):
            assert told.what != "before_releasing" or not told.about or after.what == "ReleasePartitions"


def test_h80_nobody_fetches_or_hands_out_what_the_registry_has_for_another(churn: Churn) -> None:
    assert churn.sampled > 10_000
    assert max(churn.epochs.values()) > 50, "it changed hands"
    assert churn.violations == []
    handed_out = churn.handed_out()
    for one in P[:6]:
        offsets = [offset for topic, number, offset in handed_out if number == one.partition]
        assert offsets == list(range(len(offsets))), f"{one} came once, in order"
    assert sum(isinstance(one.about, ClaimPartitions) for one in churn.log) > 100
