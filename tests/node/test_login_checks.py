"""Order of the passwords and tokens that are checked: addresses take turns, and nobody waits for clients that have
gone."""

import pytest

from coordinator.accounts.plain import PasswordCheck
from coordinator.config.keys import Secret
from coordinator.node.effects import CheckPassword, DropCheck, Effect
from coordinator.node.events import PasswordChecked, PasswordGiven, PasswordWithdrawn
from coordinator.node.login_checks import MOST_CHECKS, MOST_STARTED, LoginChecks
from coordinator.node.login_limits import BURST, FailedLogins, network_of
from protocol.messages.node import HttpLoginReply, SaslAuthenticate, SaslHandshake
from tests.accounts.rig import NOW, accounts_of
from tests.node.test_kafka import Peer
from tests.node.test_logins import LoginRig

ATTACKER, BILLING, SHIPPING = "10.66.0.1", "10.0.0.7", "10.0.0.8"
_MECHANISM, _DECOY = accounts_of({}).credential_for_plain("alice")
JOB = PasswordCheck(_MECHANISM, "secret", _DECOY)


class Queue:
    """Checks that are waited for, and the addresses of those that have run. Nobody derives a key."""

    def __init__(self) -> None:
        self._effects: list[Effect] = []
        self._checks = LoginChecks(self._effects)
        self._handed_out: list[int] = []
        self.checked: list[str] = []

    def begin(self, host: str, times: int = 1) -> list[int | None]:
        begun = [self._checks.begin(host, JOB, lambda _job, _moment: self.checked.append(host)) for _ in range(times)]
        self._carry_out()
        return begun

    def drop(self, number: int) -> None:
        self._checks.drop(number)
        self._carry_out()

    def run(self, times: int) -> list[str]:
        """End as many checks, and return their addresses."""
        self.checked.clear()
        for _ in range(times):
            self._checks.checked(PasswordChecked(self._handed_out.pop(0), JOB), NOW)
            self._carry_out()
        return self.checked

    def run_all(self) -> list[str]:
        self.checked.clear()
        while self._handed_out:
            self._checks.checked(PasswordChecked(self._handed_out.pop(0), JOB), NOW)
            self._carry_out()
        return self.checked

    def _carry_out(self) -> None:
        for effect in self._effects:
            if isinstance(effect, CheckPassword):
                self._handed_out.append(effect.check_id)
            elif isinstance(effect, DropCheck):
                self._handed_out.remove(effect.check_id)
        self._effects.clear()
        assert len(self._handed_out) <= MOST_STARTED


@pytest.fixture
def queue() -> Queue:
    return Queue()


def test_a_check_waits_behind_one_of_each_other_address_at_most(queue: Queue) -> None:
    queue.begin(ATTACKER, MOST_CHECKS)
    queue.begin(SHIPPING, 3)
    queue.begin(BILLING)
    assert BILLING in queue.run(MOST_STARTED + 3)
    assert queue.run_all().count(SHIPPING) == 2


def test_addresses_take_turns(queue: Queue) -> None:
    for host in (ATTACKER, BILLING, SHIPPING):
        queue.begin(host, 5)
    assert queue.run(MOST_STARTED) == [ATTACKER] * MOST_STARTED, "handed out before others had asked"
    assert queue.run(9) == [ATTACKER, BILLING, SHIPPING] * 3
    assert queue.run_all() == [BILLING, SHIPPING] * 2


def test_checks_of_one_address_keep_their_order(queue: Queue) -> None:
    numbers = queue.begin(BILLING, 10)
    assert numbers == sorted(number for number in numbers if number is not None)
    assert queue._handed_out == numbers[:MOST_STARTED]


def test_a_full_queue_keeps_nobody_out_but_who_has_filled_it(queue: Queue) -> None:
    assert None not in queue.begin(ATTACKER, MOST_CHECKS + MOST_STARTED)
    assert queue.begin(ATTACKER) == [None]
    assert None not in queue.begin(BILLING, MOST_CHECKS // 2)
    assert queue.begin(BILLING) == queue.begin(ATTACKER) == [None]
    assert None not in queue.begin(SHIPPING)


def test_many_addresses_together_have_a_bound(queue: Queue) -> None:
    begun = [number for host in range(2 * MOST_CHECKS) for number in queue.begin(f"10.0.{host >> 8}.{host & 255}", 50)]
    assert MOST_CHECKS < sum(number is not None for number in begun) < 8 * MOST_CHECKS
    assert begun[-1] is None


def test_a_dropped_check_lets_the_next_one_begin(queue: Queue) -> None:
    first, second, third, fourth = queue.begin(BILLING, 4)
    assert first and second and third and fourth
    queue.drop(third)
    queue.drop(first)
    assert queue._handed_out == [second, fourth]
    queue.drop(first)
    assert queue.run_all() == [BILLING] * 2


def test_the_living_are_checked_at_once_though_an_address_has_filled_the_queue_of_the_node() -> None:
    rig = LoginRig()
    for number in range(1, MOST_CHECKS + 1):
        peer = Peer(rig, number, ATTACKER)
        peer.send((SaslHandshake("PLAIN"), 1), (SaslAuthenticate(b"\0alice\0guess"), 2))
    living = Peer(rig, MOST_CHECKS + 1, BILLING)
    living.ask((SaslHandshake("PLAIN"), 1))
    living.send((SaslAuthenticate(b"\0alice\0secret"), 2))
    for _ in range(MOST_STARTED + 2):
        rig.end_check()
    assert rig.node.core.connections[living.number].principal == "User:alice"


def test_a_check_of_http_whose_client_has_gone_is_dropped() -> None:
    rig = LoginRig()
    for call in (1, 2, 3):
        rig.step(PasswordGiven(call, "alice", Secret("secret"), BILLING))
    for call in (1, 3):
        rig.step(PasswordWithdrawn(call))
    rig.end_check()
    assert not rig.checks
    assert rig.replied == {2: HttpLoginReply("User:alice")}


def test_a_check_of_http_that_has_run_when_its_client_goes_answers_nobody() -> None:
    rig = LoginRig()
    rig.step(PasswordGiven(1, "alice", Secret("secret"), BILLING))
    (check,) = rig.checks
    check.job.run()
    rig.step(PasswordWithdrawn(1))
    rig.step(PasswordChecked(check.check_id, check.job))
    assert not rig.replied
    assert "logins" not in rig.node.core.counters


def test_a_withdrawal_after_the_answer_is_no_news() -> None:
    rig = LoginRig()
    rig.step(PasswordGiven(1, "alice", Secret("secret"), BILLING))
    rig.end_check()
    rig.step(PasswordWithdrawn(1))
    rig.step(PasswordWithdrawn(2))
    assert rig.replied == {1: HttpLoginReply("User:alice")}


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unknown", "unknown"),
    ],
)
def test_an_ipv6_network_counts_as_one_address(host: str, network: str) -> None:
    assert network_of(host) == network


def test_failures_from_all_over_a_network_are_limited_together() -> None:
    failed = FailedLogins()
    for number in range(BURST):
        failed.add(f"2001:db8::{number:x}", 0)
    assert failed.is_limited("2001:db8::ffff", 0)
    assert not failed.is_limited("2001:db8:0:1::1", 0)
