"""Cost of logins and access rules: `python -m bench logins`.

The node alone serves the same requests without logins, with them, and with them and 10,000 ACLs: one round of each by
turns, so that what else the machine does meets all three. Then a daemon is asked for 1,000 logins a second, and
members measure their heartbeats meanwhile.
"""

import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench import login_storm, scram
from bench.alone import requests_of
from bench.node_rig import CONNECTIONS, M, Rig
from bench.processes import QUICK_GROUPS, Daemon, scratch
from bench.report import Options, Sheet, Value, median
from bench.wire import Wire, WireMember
from coordinator.accounts.acls import Acl
from coordinator.accounts.records import AccountsRecord, AclRecord, CredentialRecord
from coordinator.accounts.scram import ScramMechanism, credential_of
from coordinator.config.accounts import AuthorizerClass, Mechanisms, Principals
from protocol.kafka.client import KafkaClient
from protocol.messages import Message
from protocol.messages.acls import AclOperation, AclPatternType, AclPermission, AclResourceType
from protocol.messages.groups import JoinGroup
from protocol.messages.node import SaslAuthenticate, SaslAuthenticateReply, SaslHandshake, SaslHandshakeReply

ROUNDS = 1_000
_QUICK = 20
ACLS = 10_000
_A_BATCH = 500
LOGINS = 1_000
"""Logins that are attempted a second."""
_MEMBERS = 20
_BETWEEN_S = 0.002
_STORM_S = 5.0
_DRAINED_S = 60.0
_MECHANISM = ScramMechanism.SCRAM_SHA_256
_ROOT, _PASSWORD = "root", "the first secret"
_LOGINS = {"sasl_enabled_mechanisms": Mechanisms((scram.MECHANISM,))}
_RULES: dict[str, Any] = {
    **_LOGINS,
    "authorizer_class_name": AuthorizerClass.STANDARD,
    "super_users": Principals(frozenset({"User:ANONYMOUS"})),
}


class LoginRig(Rig):
    """The same node and members, each with a user of its own, who has logged in. With `acls`, so many rules hold."""

    def __init__(self, folder: Path, acls: int) -> None:
        self._acls = acls
        self._clients: dict[int, KafkaClient] = {}
        super().__init__(folder, **(_RULES if acls else _LOGINS))

    def open(self, number: int) -> None:
        if not self._clients:
            self._write_accounts()
        self._clients[number] = KafkaClient("bench", 1 << 20)
        super().open(number)
        login = scram.SaltedLogin(_user(number), scram.salted(_user(number)), f"nonce{number}")
        self.ask_of(number, SaslHandshake(scram.MECHANISM), SaslHandshakeReply)
        challenge = self.ask_of(number, SaslAuthenticate(login.first()), SaslAuthenticateReply)
        done = self.ask_of(number, SaslAuthenticate(login.final(challenge.auth_bytes)), SaslAuthenticateReply)
        assert not done.error_code, done

    def ask_of(self, number: int, message: Message, kind: type[M]) -> M:
        client = self._clients[number]
        _, frame = client.encode_request(message, 1 if isinstance(message, SaslHandshake | JoinGroup) else 2)
        replies = self.serve({number: frame})[1]
        while number not in replies:
            self._now_ms += 1
            replies = self.serve({})[1]
        ((_, reply),) = client.receive_data(replies[number])
        assert isinstance(reply, kind), reply
        return reply

    def _write_accounts(self) -> None:
        accounts = self.node.core.accounts
        records = list(_records(self._acls))
        for first in range(0, len(records), _A_BATCH):
            assert not accounts.write(records[first : first + _A_BATCH], self._moment())
        assert len(accounts.authorizer.acls) == self._acls


def _user(number: int) -> str:
    return f"user-{number}"


def _records(acls: int) -> Iterator[AccountsRecord]:
    """A user for each connection, its own rules, and rules of other groups and topics up to so many."""
    for number in range(CONNECTIONS):
        credential = credential_of(_MECHANISM, scram.SALT, scram.salted(_user(number)), scram.ITERATIONS)
        yield CredentialRecord(_MECHANISM, _user(number), credential)
    own = [(AclResourceType.GROUP, "group-", AclPatternType.PREFIXED), (AclResourceType.TOPIC, "orders", None)]
    for number in range(min(acls, ACLS)):
        if number < 2 * CONNECTIONS:
            kind, name, pattern = own[number % 2]
        else:
            kind, name = list(AclResourceType)[1 + number % 2], f"team-{number}"
            pattern = AclPatternType.PREFIXED if number % 3 else None
        principal = f"User:{_user(number // 2 % CONNECTIONS)}"
        literal = pattern or AclPatternType.LITERAL
        acl = Acl(kind, name, literal, principal, "*", AclOperation.READ, AclPermission.ALLOW)
        yield AclRecord(acl, is_there=True)


def measure(options: Options) -> list[Sheet]:
    return [_alone(options), _stormed(options)]


# ------------------------------------------------------------------------------------------------------- the node alone


def _alone(options: Options) -> Sheet:
    rounds = ROUNDS // (_QUICK if options.quick else 1)
    rows: list[tuple[Value, ...]] = []
    with ExitStack() as stack:
        folders = [stack.enter_context(scratch(in_memory=True)) for _ in range(3)]
        rigs = {
            "without": Rig(folders[0]),
            "logins": LoginRig(folders[1], 0),
            f"logins, {ACLS:,} ACLs": LoginRig(folders[2], ACLS),
        }
        frames = {name: requests_of(rig.members) for name, rig in rigs.items()}
        gc.collect()
        gc.disable()
        try:
            for request in frames["without"]:
                took: dict[str, list[float]] = {name: [] for name in rigs}
                for _ in range(rounds):
                    for name, rig in rigs.items():
                        took[name].append(rig.round(frames[name][request]))
                rows += _rows(request, took)
        finally:
            gc.enable()
    return Sheet(
        "The node alone, with logins and access rules",
        ("request", "accounts", "least us", "median us", "least / without", "median / without"),
        rows,
        (f"{CONNECTIONS} connections, each with a user of its own. Goal: 1.1 for Heartbeat and OffsetCommit.",),
    )


def _rows(request: str, took: dict[str, list[float]]) -> Iterator[tuple[Value, ...]]:
    least, middle = min(took["without"]), median(took["without"])
    for name, rounds in took.items():
        yield request, name, min(rounds), median(rounds), min(rounds) / least, median(rounds) / middle


# -------------------------------------------------------------------------------------------- heartbeats during logins


class Stretch(NamedTuple):
    """Time in which heartbeats are measured, with logins of a mechanism: at the same daemon, or, to know what the
    clients of the storm take away from everybody on this machine, at another one."""

    name: str
    mechanism: str = ""
    is_elsewhere: bool = False


_STRETCHES = (
    Stretch("none"),
    Stretch(f"{scram.MECHANISM}, elsewhere", scram.MECHANISM, is_elsewhere=True),
    Stretch(scram.MECHANISM, scram.MECHANISM),
    Stretch("PLAIN, elsewhere", "PLAIN", is_elsewhere=True),
    Stretch("PLAIN", "PLAIN"),
)


class Beaten(NamedTuple):
    """Heartbeats of one stretch: milliseconds until each was answered, and what the logins came to."""

    took_ms: list[float]
    cpu: float
    """Share of one processor that the daemon used."""
    logins: dict[str, float]
    drained_ms: float
    """Time until a login by PLAIN ended that began when the clients of the storm had gone."""


def _stormed(options: Options) -> Sheet:
    seconds = 1.0 if options.quick else _STORM_S
    found: dict[Stretch, list[Beaten]] = {stretch: [] for stretch in _STRETCHES}
    with ExitStack() as stack:
        daemon, other = (_daemon(stack) for _ in range(2))
        members = [_join(stack, daemon, number) for number in range(_MEMBERS)]
        for _ in range(options.rounds):
            for stretch, rounds in found.items():
                rounds.append(_beat(members, daemon, other if stretch.is_elsewhere else daemon, stretch, seconds))
    return Sheet(
        f"Heartbeats while {LOGINS:,} logins a second are attempted",
        (
            "logins",
            "attempted /s",
            "let in /s",
            "refused /s",
            "CPU %",
            "p50 ms",
            "p99 ms",
            "longest ms",
            "next PLAIN ms",
        ),
        [_row(stretch, rounds) for stretch, rounds in found.items()],
        (
            "Heartbeats of one client after the other; what it waits for a processor is in them.",
            "elsewhere: the same logins at another daemon. The processor is as busy, and this daemon hears of none.",
            "PLAIN: the key of each password is derived beside the loop; beyond 1,000 that wait, logins are refused.",
            "next PLAIN: a login right after the storm, whose clients have gone. Each stretch begins after it.",
        ),
    )


def _row(stretch: Stretch, rounds: list[Beaten]) -> tuple[Value, ...]:
    took = sorted(one for each in rounds for one in each.took_ms)
    rates = [median([each.logins[name] for each in rounds]) for name in ("attempted", "let_in", "refused")]
    cpu = median([each.cpu for each in rounds]) * 100
    drained_ms = median([each.drained_ms for each in rounds])
    beats = statistics.median(took), took[len(took) * 99 // 100], took[-1]
    return stretch.name, *map(round, rates), cpu, *beats, drained_ms


def _daemon(stack: ExitStack) -> Daemon:
    """Start a daemon that knows the storm's user."""
    settings = {
        **QUICK_GROUPS,
        "sasl.enabled.mechanisms": f"{scram.MECHANISM},PLAIN",
        "initial.admin": f"{_ROOT}:{_PASSWORD}",
    }
    daemon = stack.enter_context(Daemon(stack.enter_context(scratch()) / "data", settings, http=False))
    with Wire(daemon.native) as root:
        _log_in_plainly(root)
        upsertion = {
            "name": login_storm.USER,
            "mechanism": scram.NUMBER,
            "iterations": scram.ITERATIONS,
            "salt": scram.SALT,
            "salted_password": login_storm.SALTED,
        }
        root.call("AlterUserScramCredentials", deletions=[], upsertions=[upsertion])
    return daemon


def _log_in_plainly(wire: Wire) -> None:
    wire.call("Login", mechanism="PLAIN", auth_bytes=f"\0{_ROOT}\0{_PASSWORD}".encode())


def _join(stack: ExitStack, daemon: Daemon, number: int) -> WireMember:
    wire = stack.enter_context(Wire(daemon.native))
    wire.log_in(login_storm.USER, login_storm.SALTED, f"member{number}")
    member = WireMember(wire, f"group-{number}", session_timeout_ms=300_000)
    member.join()
    return member


def _beat(members: list[WireMember], daemon: Daemon, stormed: Daemon, stretch: Stretch, seconds: float) -> Beaten:
    with ExitStack() as stack:
        storm = stack.enter_context(_storm(stormed, stretch.mechanism)) if stretch.mechanism else None
        took_ms: list[float] = []
        cpu, began = daemon.cpu_s(), time.perf_counter()
        while (now := time.perf_counter()) < began + seconds:
            members[len(took_ms) % len(members)].heartbeat()
            took_ms.append((time.perf_counter() - now) * 1e3)
            time.sleep(_BETWEEN_S)
        used = (daemon.cpu_s() - cpu) / (time.perf_counter() - began)
        if storm is None:
            logins = dict.fromkeys(("attempted", "let_in", "refused"), 0.0)
        else:
            logins = json.loads(storm.communicate()[0])
    return Beaten(took_ms, used, logins, _drained_ms(stormed))


@contextmanager
def _storm(daemon: Daemon, mechanism: str) -> Iterator[subprocess.Popen[str]]:
    """Attempt logins until its standard input is closed. It has begun, and logins wait already."""
    command = [sys.executable, "-m", "bench.login_storm", *map(str, daemon.native), mechanism, str(LOGINS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as storm:
        try:
            assert storm.stdout is not None
            assert storm.stdout.readline() == "begun\n"
            yield storm
        finally:
            storm.kill()


def _drained_ms(daemon: Daemon) -> float:
    """Wait until no password waits to be checked: they are checked in order, so one that comes now is the last."""
    began = time.perf_counter()
    while True:
        try:
            with Wire(daemon.native, _DRAINED_S) as wire:
                _log_in_plainly(wire)
            return (time.perf_counter() - began) * 1e3
        except ConnectionError:  # a thousand others wait
            assert time.perf_counter() < began + _DRAINED_S
            time.sleep(_BETWEEN_S)
