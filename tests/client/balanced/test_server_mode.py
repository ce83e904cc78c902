"""Members of a server-balanced group, with a real node in simulated time (docs/spec/client-balanced-groups.md#12): what
they own, and how long the first message takes in both modes."""

from functools import cache, partial
from pathlib import Path

import pytest

from muster.balanced import BalancedConfig
from muster.core.balancing.events import ConfirmAsked
from muster.core.balancing.loop import rebalance_once
from tests.client.balanced.rigs import BalancedNodeRig
from tests.client.balanced.world import ApplicationCall, SimMember

PAGE = Path(__file__).parents[3] / "docs" / "balanced.md"
PERIODS_MS = (5_000, 30_000, 120_000)
HEARTBEAT_MS, CONFIRM_MS = 10_000, 3_000
_TICK_MS, _WRITE_MS = 50, 500


class PeriodRig(BalancedNodeRig):
    """A node that wakes by itself, and balances once in a period."""

    def __init__(self, period_ms: int) -> None:
        super().__init__(server_balance_interval_ms=period_ms)
        self._tick()

    def _tick(self) -> None:
        self._wake()
        self._deliver_pushes()
        self.after(_TICK_MS, self._tick)

    def owned(self) -> dict[str, str]:
        return {key: owner.consumer_id for key, owner in self.owners().items()}


def rig_of(period_ms: int, partitions: int = 4) -> PeriodRig:
    rig = PeriodRig(period_ms)
    rig.make("t", partitions)
    for number in range(partitions):
        rig.append(f"1:t:{number}", b"x")
    return rig


def member(rig: PeriodRig, who: str, mode: str = "server") -> SimMember:
    return rig.member(who, mode=mode, consume_position="first")


def test_a_member_reads_what_it_was_assigned_and_gives_up_what_another_gets() -> None:
    rig = rig_of(30_000)
    one = member(rig, "a")
    assert one.start().ok
    batch = one.batch()
    assert rig.owned() == {f"1:t:{number}": "a" for number in range(4)}
    other = member(rig, "b")
    assert other.start().ok
    rig.run(32_000)
    assert batch.key in one.core.registered, "its batch is not confirmed yet"
    rig.run(30_000)
    assert sorted(rig.owned().values()) == ["a", "a", "b", "b"]
    assert set(one.core.registered).isdisjoint(other.core.registered)
    assert set(rig.owned()) == {*one.core.registered, *other.core.registered}
    assert other.shut_down().ok
    rig.run(31_000)
    assert set(rig.owned().values()) == {"a"}


def test_who_was_forgotten_by_the_coordinator_is_assigned_its_partitions_again() -> None:
    rig = rig_of(5_000)
    one = member(rig, "a")
    assert one.start().ok
    rig.run(6_000)
    rig.remove("a")
    rig.run(30_000)
    assert rig.owned() == dict.fromkeys(one.core.registered, "a") and len(one.core.registered) == 4


def test_an_application_of_such_a_group_connects_nothing_itself() -> None:
    rig = rig_of(30_000)
    one = member(rig, "a")
    assert (one.start(2, 0).code, one.start().ok) == (400, True)
    assert one.meta().ok
    assert one.connect("1:t:0").code == 424
    assert one.disconnect("1:t:0").code == 424
    assert not [kind for kind in one.kinds() if kind == "RegisterPartitions"]


def test_one_mode_a_group() -> None:
    rig = rig_of(30_000)
    assert member(rig, "a").start().ok
    refused = member(rig, "b", "client").start()
    assert refused.code == 424


@pytest.mark.parametrize("mode", ["Server", "", "none"])
def test_a_mode_that_is_none_is_refused(mode: str) -> None:
    with pytest.raises(ValueError, match="'client' or 'server'"):
        BalancedConfig(mode=mode)


# --- how long the first message takes ---


@cache
def first_message_ms(mode: str, period_ms: int, *, beside: bool) -> int:
    """Return the time from start to the first message of a member that comes just after a pass: alone, or to a group
    whose only member reads everything and confirms at once."""
    rig = rig_of(period_ms, 2)
    if beside:
        other = member(rig, "other", mode)
        assert other.start(2, 0).ok if mode == "client" else other.start().ok
        _serve(rig, other, mode)
    rig.run(3 * period_ms - rig.now_ms + 100)
    assert not beside or rig.owned(), "the other one reads"
    _write(rig, 2)
    began_ms = rig.now_ms
    one = member(rig, "one", mode)
    assert one.start(2, 1).ok if mode == "client" else one.start().ok
    if mode == "client":
        rebalance_once(one.as_consumer())
        assert one.core.registered
    for _ in range(1_000):
        if one.get().ok:  # else 406, after 90 s without a partition
            return rig.now_ms - began_ms
    raise AssertionError("no message comes")


def _write(rig: PeriodRig, partitions: int) -> None:
    """Append a record to each partition, now and again."""
    for number in range(partitions):
        rig.append(f"1:t:{number}", b"y")
    rig.after(_WRITE_MS, partial(_write, rig, partitions))


def _serve(rig: PeriodRig, other: SimMember, mode: str) -> None:
    """Have it read and confirm for ever, as an application does."""
    if mode == "client":
        rebalance_once(other.as_consumer())

    def read_on() -> None:
        call = other.getting()
        rig.when(lambda: call.is_over, partial(confirm, call))

    def confirm(call: ApplicationCall) -> None:
        if call.result.ok:
            context = call.result.data.confirm_ctx
            other.begin(lambda number: ConfirmAsked(number, context, True))
        rig.after(_TICK_MS, read_on)

    read_on()


def test_the_first_message_of_a_client_balanced_member_does_not_wait_for_a_period() -> None:
    for beside in (False, True):
        took = {first_message_ms("client", period_ms, beside=beside) for period_ms in PERIODS_MS}
        assert len(took) == 1 and max(took) < 1_000, took


@pytest.mark.parametrize("period_ms", PERIODS_MS)
def test_the_first_message_of_a_server_balanced_member_waits_for_a_period_and_a_release(period_ms: int) -> None:
    alone = first_message_ms("server", period_ms, beside=False)
    beside = first_message_ms("server", period_ms, beside=True)
    assert period_ms - 200 <= alone <= period_ms + 1_000
    assert alone <= beside <= period_ms + CONFIRM_MS + 1_000


def test_the_page_has_these_figures() -> None:
    page = PAGE.read_text()
    for line in figures():
        assert line in page, f"docs/balanced.md lacks {line}"


def figures() -> list[str]:
    """Return the table of the page, in milliseconds."""
    lines = []
    for mode in ("client", "server"):
        for beside in (False, True):
            took = [first_message_ms(mode, period_ms, beside=beside) for period_ms in PERIODS_MS]
            where = "beside a member that reads all" if beside else "alone"
            lines.append(f"| `{mode}`, {where} | " + " | ".join(f"{one:,}" for one in took) + " |")
    return lines
