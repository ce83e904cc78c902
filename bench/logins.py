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
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from bench import login_storm, scram
from bench.alone import requests_of
from bench.node_rig import CONNECTIONS, M, Rig
from bench.processes import QUICK_GROUPS, Daemon, scratch
from bench.report import Options, Sheet, Value, median
from bench.wire import Wire, WireMember
from coordinator.accounts.acls import Acl, AclPatternType, AclPermission, AclResourceType
from coordinator.accounts.records import AccountsRecord, AclRecord, CredentialRecord
from coordinator.accounts.scram import ScramMechanism, credential_of
from coordinator.config.accounts import AuthorizerClass, Mechanisms, Principals
from protocol.kafka.client import KafkaClient
from protocol.messages import Message
from protocol.messages.acls import AclOperation
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


class Beaten(NamedTuple):
    """Heartbeats of one stretch: milliseconds until each was answered, and what the logins came to."""

    took_ms: list[float]
    cpu: float
    """Share of one processor that the daemon used."""
    logins: dict[str, float]


def _stormed(options: Options) -> Sheet:
    seconds = 1.0 if options.quick else _STORM_S
    settings = {
        **QUICK_GROUPS,
        "sasl.enabled.mechanisms": f"{scram.MECHANISM},PLAIN",
        "initial.admin": f"{_ROOT}:{_PASSWORD}",
    }
    found: dict[str, list[Beaten]] = {"none": [], scram.MECHANISM: [], "PLAIN": []}
    with scratch() as folder, Daemon(folder / "data", settings, http=False) as daemon, ExitStack() as stack:
        with Wire(daemon.native) as root:
            root.call("Login", mechanism="PLAIN", auth_bytes=f"\0{_ROOT}\0{_PASSWORD}".encode())
            upsertion = {
                "name": login_storm.USER,
                "mechanism": scram.NUMBER,
                "iterations": scram.ITERATIONS,
                "salt": scram.SALT,
                "salted_password": login_storm.SALTED,
            }
            root.call("AlterUserScramCredentials", deletions=[], upsertions=[upsertion])
        members = [_join(stack, daemon, number) for number in range(_MEMBERS)]
        for _ in range(options.rounds):
            for mechanism, rounds in found.items():
                rounds.append(_beat(daemon, members, mechanism, seconds))
    return Sheet(
        f"Heartbeats while {LOGINS:,} logins a second are attempted",
        ("logins", "attempted /s", "let in /s", "refused /s", "CPU %", "p50 ms", "p99 ms", "longest ms"),
        [_row(mechanism, rounds) for mechanism, rounds in found.items()],
        (
            "Heartbeats of one client after the other; what it waits for a processor is in them.",
            "PLAIN: the key of each password is derived beside the loop; beyond 1,000 that wait, logins are refused.",
        ),
    )


def _row(mechanism: str, rounds: list[Beaten]) -> tuple[Value, ...]:
    took = sorted(one for each in rounds for one in each.took_ms)
    rates = [median([each.logins[name] for each in rounds]) for name in ("attempted", "let_in", "refused")]
    cpu = median([each.cpu for each in rounds]) * 100
    return mechanism, *map(round, rates), cpu, statistics.median(took), took[len(took) * 99 // 100], took[-1]


def _join(stack: ExitStack, daemon: Daemon, number: int) -> WireMember:
    wire = stack.enter_context(Wire(daemon.native))
    wire.log_in(login_storm.USER, login_storm.SALTED, f"member{number}")
    member = WireMember(wire, f"group-{number}", session_timeout_ms=300_000)
    member.join()
    return member


def _beat(daemon: Daemon, members: list[WireMember], mechanism: str, seconds: float) -> Beaten:
    storm = None
    if mechanism != "none":
        command = [sys.executable, "-m", "bench.login_storm", *map(str, daemon.native), mechanism]
        storm = subprocess.Popen([*command, str(LOGINS), str(seconds + 1)], stdout=subprocess.PIPE, text=True)
        time.sleep(1.0)  # it starts, and logins wait already
    took_ms: list[float] = []
    cpu, began = daemon.cpu_s(), time.perf_counter()
    while (now := time.perf_counter()) < began + seconds:
        members[len(took_ms) % len(members)].heartbeat()
        took_ms.append((time.perf_counter() - now) * 1e3)
        time.sleep(_BETWEEN_S)
    used = (daemon.cpu_s() - cpu) / (time.perf_counter() - began)
    if storm is None:
        return Beaten(took_ms, used, dict.fromkeys(("attempted", "let_in", "refused"), 0.0))
    said, _ = storm.communicate()
    return Beaten(took_ms, used, json.loads(said))
