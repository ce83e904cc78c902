"""One client at one listener by one mechanism: it joins, reads beyond the life of its login, and is refused with a
wrong password."""

import re
import time
from collections.abc import Mapping
from pathlib import Path

from interop import rows
from interop.logins.guarded import LIFETIME_MS, WRONG, Counts, ProtectedMusterd
from interop.processes import Crowd, Failed, Member, crowd
from interop.program import OAUTHBEARER
from interop.scenarios import PARTITIONS, SETTLE_S, Actors, Scenario
from interop.table import Result, Verdict

COLUMNS = ("joins", "reauthenticates", "consumes", "wrong password refused")
_SESSION_MS = 20_000
_LIFETIMES, _ROUNDS = 3, 24
"""Lives of a login during which records are read, and rounds of them."""
_REFUSALS = re.compile(
    r"SASL[ _]authentication[ _](?:failed|error)|SaslAuthentication(?:FailedError|Failed|Exception)|invalid_token"
    r"|unable to initialize sasl",
    re.IGNORECASE,
)
"""Words of which a client says some when it is refused."""
_DEAF = {
    "kafka-python": ("socket disconnected",),
    "aiokafka": ("KafkaConnectionError: Unable to bootstrap", "Unable to update metadata from []"),
}
"""Words of clients that may miss the reason. kafka-python drops an answer that arrives with the end of its connection;
aiokafka takes the server's word of a refused token for a success, sends a request, and is closed, by an Apache Kafka
after an answer that names no broker.
"""


def play(scenario: Scenario, server: ProtectedMusterd, mechanism: str) -> list[Result]:
    """Return a result for each column that was reached."""
    results: list[Result] = []
    with crowd(scenario.logs) as members:
        login = _Login(scenario, server, mechanism, members)
        for column, step in zip(COLUMNS[:3], (login.joins, login.reauthenticates, login.consumes), strict=True):
            results.append(rows.tried(column, step))
            if results[-1].verdict is Verdict.FAILED:
                break
    with crowd(scenario.logs) as members:
        results.append(rows.tried(COLUMNS[3], lambda: refused(scenario, server, mechanism, members)))
    return results


class _Login:
    """A member that logs in rightly."""

    def __init__(self, scenario: Scenario, server: ProtectedMusterd, mechanism: str, members: Crowd) -> None:
        self._scenario = scenario
        self._server = server
        self._actors = Actors(scenario, members)
        self._file = written(scenario.logs / "right.properties", server.settings(mechanism))
        self._producer = scenario.judge.producer()
        self._sent: list[tuple[int, str]] = []
        self._member: Member | None = None

    def joins(self) -> str:
        self._scenario.judge.create(self._scenario.topic, PARTITIONS)
        limit = PARTITIONS * (_ROUNDS + 2)
        self._member = self._actors.member("--limit", str(limit), "--security", str(self._file), session_ms=_SESSION_MS)
        self._actors.settle("the member has logged in and joined", self._member)
        self._round()  # from here on it has all the connections that it needs
        return f"{PARTITIONS} partitions"

    def reauthenticates(self) -> str:
        member = self._member
        assert member is not None
        assigned, before = len(member.history), self._server.counts()
        began = time.monotonic()
        for number in range(1, _ROUNDS + 1):
            self._round()
            ends = began + number * _LIFETIMES * LIFETIME_MS / 1_000 / _ROUNDS
            time.sleep(max(0.0, ends - time.monotonic()))
        if len(member.history) != assigned:
            told = [sorted(one) for one in member.history[assigned:]]
            raise Failed(f"its partitions were taken from it meanwhile: it was given {told}")
        return renewed(before, self._server.counts(), by_reauthentication=self._scenario.program.client.reauthenticates)

    def consumes(self) -> str:
        member = self._member
        assert member is not None
        self._send()  # the last of its limit: it commits and leaves
        member.join(SETTLE_S)
        check_read(self._sent, [(record.partition, record.value) for record in member.records])
        if not member.committed:
            raise Failed("it ended without a commit")
        committed = self._scenario.judge.committed_total(self._scenario.group, self._scenario.topic, PARTITIONS)
        if committed != len(self._sent):
            raise Failed(f"{len(self._sent)} records were read, but the commits add up to {committed}")
        return f"{len(self._sent)} records, each once and in order, then a commit"

    def _round(self) -> None:
        """A record for each partition; returns once the member has handed out all."""
        self._send()
        member = self._member
        assert member is not None
        arrived = len(self._sent)
        self._actors.crowd.wait(lambda: len(member.records) >= arrived, f"{arrived} records are handed out", SETTLE_S)

    def _send(self) -> None:
        first = len(self._sent)
        records = [(partition, str(first + partition)) for partition in range(PARTITIONS)]
        self._scenario.judge.send(self._producer, self._scenario.topic, records)
        self._sent += records


def refused(scenario: Scenario, server: ProtectedMusterd, mechanism: str, members: Crowd) -> str:
    """Start a member with a wrong password: the server must refuse it, and the member say so."""
    before = server.counts().failed
    log = scenario.logs / "member-1.log"
    said = len(log.read_bytes()) if log.exists() else 0  # the story before left lines there
    file = written(scenario.logs / "wrong.properties", server.settings(mechanism, password=WRONG))
    member = Actors(scenario, members).member("--security", str(file), session_ms=_SESSION_MS)
    ends = time.monotonic() + SETTLE_S
    heard = ""
    is_counted = server.counts_tokens or mechanism != OAUTHBEARER
    while time.monotonic() < ends and not (heard and (server.counts().failed > before or not is_counted)):
        heard = refusal(log.read_bytes()[said:].decode(errors="replace"), scenario.program.client.name)
        if member.history:
            raise Failed("it came in with a wrong password")
        time.sleep(0.1)
    member.kill()
    failed = server.counts().failed - before
    if member.history or (is_counted and not failed) or not heard:
        raise Failed(
            f"{failed} logins were refused, it owns {sorted(member.owned)}, and says {heard or 'nothing of it'}"
        )
    return f"it says: {heard}"


def refusal(log: str, client: str = "") -> str:
    """Return the words of a program by which it tells of a refused login, or nothing."""
    if found := _REFUSALS.search(log):
        return found[0]
    return next((words for words in _DEAF.get(client, ()) if words in log), "")


def renewed(before: Counts, after: Counts, *, by_reauthentication: bool) -> str:
    """Return how a client outlived its login. Raises Failed if one that can reauthenticate connected anew."""
    opened, expired = after.opened - before.opened, after.expired - before.expired
    logins = after.logins - before.logins
    if logins < _LIFETIMES - 1:
        raise Failed(f"{logins} logins in {_LIFETIMES} lives of one")
    if not opened and not expired:
        return f"{_LIFETIMES} lives of a login, on connections that stayed"
    sentence = f"{expired} connections were closed at the end of their login, {opened} opened"
    if by_reauthentication:
        raise Failed(sentence)
    return f"connects anew: {sentence}"


def check_read(sent: list[tuple[int, str]], read: list[tuple[int, str]]) -> None:
    """Raise Failed unless each record was read once, and in order in its partition."""
    for partition in range(PARTITIONS):
        wanted, found = ([value for at, value in all_of if at == partition] for all_of in (sent, read))
        if found != wanted:
            lost = [value for value in wanted if value not in found]
            raise Failed(f"of partition {partition}, {len(found)} of {len(wanted)} records were read, lost: {lost[:5]}")


def written(path: Path, settings: Mapping[str, str]) -> Path:
    """Write the settings for a program, and return the file: a password on a command line is everybody's."""
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path.resolve()
