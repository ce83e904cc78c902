"""Members, their applications and the network do as they like; what must hold holds all the same."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.balancing import Batch
from muster.core.balancing.events import ConfirmAsked, ConnectAsked, DisconnectAsked, GaveUp, MetaAsked
from tests.client.balanced.rigs import RIGS, BalancedRig
from tests.client.balanced.world import ApplicationCall, SimMember
from tests.enumerations import share_of

KEYS = ["1:t:0", "1:t:1"]
MEMBERS = 3

MEMBER_DOES = st.sampled_from(
    [
        "get",
        "get",
        "get",
        "confirm",
        "confirm",
        "confirm",
        "reject",
        "connect",
        "connect",
        "disconnect",
        "meta",
        "interrupt",
    ]
)
WORLD_DOES = st.sampled_from(
    ["run", "run", "wait", "long", "cut", "silence", "deafen", "late", "heal", "remove", "append"]
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.integers(0, MEMBERS - 1), MEMBER_DOES, st.integers(0, 1)),
        st.tuples(st.integers(0, MEMBERS - 1), WORLD_DOES, st.integers(0, 1)),
    ),
    max_size=120,
)


@dataclass
class App:
    """State of an application: the answers it waits for, and the batches that it has."""

    player: SimMember
    reading: list[ApplicationCall] = field(default_factory=list)
    others: list[ApplicationCall] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)


class Play:
    def __init__(self, kind: str, in_local: bool) -> None:
        self.rig: BalancedRig = RIGS[kind]().make("t", 2)
        self.apps = [
            App(
                self.rig.member(
                    f"m{number}",
                    consume_position="first",
                    fetch_max_bytes=1,
                    ready_wait_ms=700,
                    confirm_in_local=in_local,
                    session_timeout_ms=9_000,
                    heartbeat_interval_ms=3_000,
                )
            )
            for number in range(MEMBERS)
        ]
        self.ends = dict.fromkeys(KEYS, 0)
        self.confirmed = dict.fromkeys(KEYS, 0)
        self.grants: dict[str, dict[int, int]] = {key: {} for key in KEYS}
        """Time of the first batch of each grant."""
        for app in self.apps:
            assert app.player.start().ok
            assert app.player.meta().ok

    def step(self, who: int, what: str, key: str) -> None:
        app = self.apps[who]
        getattr(self, f"do_{what}")(app, key)
        self.look()

    # -- what applications do

    def do_get(self, app: App, _key: str) -> None:
        if len(app.reading) < 2:
            app.reading.append(app.player.getting())

    def do_confirm(self, app: App, _key: str) -> None:
        self._confirm(app, consumed=True)

    def do_reject(self, app: App, _key: str) -> None:
        self._confirm(app, consumed=False)

    def _confirm(self, app: App, *, consumed: bool) -> None:
        if not app.batches:
            return
        batch = app.batches.pop(0)
        said = app.player.begin(partial(ConfirmAsked, context=batch.confirm_ctx, consumed=consumed))
        app.others.append(said)
        if consumed and not (said.is_over and said.result.code == 400):
            self.confirmed[batch.key] = max(self.confirmed[batch.key], batch.curr)

    def do_connect(self, app: App, key: str) -> None:
        app.others.append(app.player.begin(partial(ConnectAsked, key=key)))

    def do_disconnect(self, app: App, key: str) -> None:
        app.others.append(app.player.begin(partial(DisconnectAsked, key=key)))

    def do_meta(self, app: App, _key: str) -> None:
        app.others.append(app.player.begin(MetaAsked))

    def do_interrupt(self, app: App, _key: str) -> None:
        """Somebody who reads is interrupted, and whatever comes of it is nobody's."""
        self.look()
        if app.reading:
            app.player.feed(GaveUp(app.reading.pop(0).operation))

    # -- what the world does

    def do_run(self, _app: App, _key: str) -> None:
        self.rig.run(10)

    def do_wait(self, _app: App, _key: str) -> None:
        self.rig.run(1_100)

    def do_long(self, _app: App, _key: str) -> None:
        self.rig.run(5_500)

    def do_cut(self, app: App, _key: str) -> None:
        app.player.is_cut, self.rig.refuses_connections = True, True

    def do_silence(self, app: App, _key: str) -> None:
        app.player.is_cut, self.rig.refuses_connections = True, False

    def do_deafen(self, app: App, _key: str) -> None:
        app.player.cut_kinds = frozenset({"MemberHeartbeat", "PartitionMeta", "ConfirmConsumed"})

    def do_late(self, app: App, _key: str) -> None:
        """Have requests get no answer, and be carried out long after they were given up."""
        app.player.late_ms = 4_000

    def do_heal(self, app: App, _key: str) -> None:
        app.player.is_cut, app.player.late_ms, app.player.cut_kinds = False, 0, frozenset()

    def do_remove(self, app: App, _key: str) -> None:
        if app.player.who in self.rig.members():
            self.rig.remove(app.player.who)

    def do_append(self, _app: App, key: str) -> None:
        self.rig.append(key, b"%d" % self.ends[key])
        self.ends[key] += 1

    # -- what must hold

    def look(self) -> None:
        for app in self.apps:
            for call in [one for one in app.reading if one.is_over]:
                app.reading.remove(call)
                if call.result.ok:
                    self._delivered(app, call.result.data)
                    self._granted(call)
            app.others = [one for one in app.others if not one.is_over]
        for key, offset in self.rig.committed().items():
            assert offset <= self.confirmed[key], "more is committed than was ever confirmed"

    def _delivered(self, app: App, batch: Batch) -> None:
        app.batches.append(batch)
        first = batch.messages[0].offset
        assert first <= self.confirmed[batch.key], "records were passed over that nobody has confirmed"
        assert [record.offset for record in batch.messages] == list(range(first, batch.curr))

    def _granted(self, call: ApplicationCall) -> None:
        key, at_ms = call.result.data.key, call.ended_ms
        assert call.reg_epoch > 0, "a batch came of a partition that was not owned"
        for epoch, delivered_ms in self.grants[key].items():
            assert epoch <= call.reg_epoch or delivered_ms > at_ms, "an older grant still delivered"
        self.grants[key].setdefault(call.reg_epoch, at_ms)

    def finish(self) -> None:
        """No faults any more, and applications that behave: everybody is answered, everything is read."""
        for app in self.apps:
            self.do_heal(app, "")
        self.rig.run(25_000)
        self.look()
        for app in self.apps:
            assert app.reading == []
            assert app.others == []
            assert app.player.core.is_joined
            while app.batches:
                self._confirm(app, consumed=True)
        self.rig.run(1_000)
        last = self.apps[0].player
        for app in self.apps:
            for key in KEYS:
                assert app.player.disconnect(key).ok
        self.rig.run(6_000)
        assert self.rig.owners() == {}
        for key in KEYS:
            assert last.connect(key).ok
        for _ in range(sum(self.ends.values()) * 2 + 20):
            said = last.get()
            if said.ok:
                self._delivered(self.apps[0], said.data)
                assert last.confirm(said.data.confirm_ctx).ok
                self.confirmed[said.data.key] = max(self.confirmed[said.data.key], said.data.curr)
        for key in KEYS:
            assert self.confirmed[key] == self.ends[key]
        assert last.shut_down().ok
        assert {key: end for key, end in self.ends.items() if end} == self.rig.committed()


@pytest.mark.parametrize("kind", RIGS)
@pytest.mark.parametrize("in_local", [False, True])
@settings(deadline=None, max_examples=share_of(40))
@given(steps=STEPS)
def test_nothing_is_lost_nothing_is_skipped_and_everybody_is_answered(
    kind: str, in_local: bool, steps: list[tuple[int, Any, int]]
) -> None:
    play = Play(kind, in_local)
    for who, what, which in steps:
        play.step(who, what, KEYS[which])
    play.finish()
