"""The commands of a transcript, one a line.

    a: join [id=X] [v=3] [protocols=range,rr] [metadata=M] ...   with the id the client knows, unless given
    a: sync [a=A b=B]         as leader, these assignments; a client's name stands for its member id
    a: heartbeat | a: leave [MEMBER | #INSTANCE | MEMBER#INSTANCE ...]
    a: commit t-0=10 [retention=1s] ... | a: fetch t-0 ... | a: fetch all | a: delete-offsets t-0 ...
    a: hold 90s [members=6] | a: release
    a: describe [GROUP ...] | a: list [states=S,..] [types=T,..] | a: delete-groups [GROUP ...] | a: notes
    a: set KEY=VALUE ...      from now on, in everything the client sends; says nothing
    a: hangs up | a: reconnects
    given stable a b#1 ...    (or completing, preparing) gets there without a word, then says where it is
    wait 3s | stall 3s | clock 7d (the wall clock jumps; -1d: back) | state [GROUP] | shard GROUP
    hold disk | release disk | fail next append [too large]
    txn 7 t-0=10 [group=G] [member=a]    offsets of producer 7's transaction, of member a or of nobody; from inside
    txn 7 commits | txn 7 aborts [group=G]    its marker in the group's shard
    crash | restart | stop | unload | shards loading|failed|active | config KEY=VALUE | log KIND ...

A client is a connection that names itself by what stands before the colon.
"""

import shlex
from collections.abc import Callable
from typing import Any

from coordinator.config.config import Config
from coordinator.groups.classic.group_states import GroupState
from coordinator.runtime.shard import ShardState
from partition_log.errors import AppendError
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import (
    JoinGroupReply,
)
from protocol.messages.node import Hello
from protocol.messages.offsets import EndTransaction
from tests.transcripts import lines
from tests.transcripts.logs import write_log
from tests.transcripts.requests import SENT, Client, Options, milliseconds, transactional_commit
from tests.transcripts.rig import Link, Rig


class Script:
    """Runs the commands of one scenario. `output` collects the effects of each."""

    def __init__(self) -> None:
        self.output: list[str] = []
        self._settings: dict[str, Any] = {}
        self._clients: dict[str, Client] = {}
        self._rig: Rig | None = None

    @property
    def rig(self) -> Rig:
        if self._rig is None:
            self._rig = Rig(self._config(), self.output.append, self._answered)
        return self._rig

    def _config(self) -> Config:
        return Config(**{"offsets_topic_num_partitions": 5, "data_dir": "data", **self._settings})

    def close(self) -> None:
        """End the scenario with the check that replaying its log gives the live state."""
        if self._rig is not None:
            if not self.rig.holds_disk:
                self.rig.check_replay()
            self.rig.__exit__()

    def run(self, command: str) -> None:
        words = shlex.split(command)
        if words[0].endswith(":"):
            client = self._client(words[0][:-1])
            verb = SENT.get(words[1])
            if verb is not None:
                options, rest = _split(words[2:])
                self.rig.send(client.link, verb(self, client, {**client.options, **options}, options, rest))
            else:
                getattr(self, f"_client_{words[1]}")(client, words[2:])
        else:
            getattr(self, f"_do_{words[0]}")(words[1:])

    def _client(self, name: str) -> Client:
        client = self._clients.get(name)
        if client is None:
            client = self._clients[name] = Client(name, self._connect(name))
        return client

    def _connect(self, name: str) -> Link:
        link = self.rig.open_link()
        self.rig.send(link, Hello(client_name=name, client_version="1"))
        return link

    def _answered(self, connection: int, request: Message | None, reply: Message) -> None:
        if connection < 0:
            self.output.append(f"txn <- {lines.message(reply)}")
            return
        client = next((c for c in self._clients.values() if c.link.number == connection), None)
        if client is None or isinstance(request, Hello):
            return
        if request is None:
            self.output.append(f"{client.name} << {lines.message(reply)}")
            return
        if isinstance(reply, JoinGroupReply):
            _learn(client, reply)
        self.output.append(f"{client.name} <- {lines.message(reply)}")

    def id_of(self, word: str) -> str:
        """Return the member id for a client's name; other words are themselves, `-` is empty."""
        client = self._clients.get(word)
        return client.member_id if client is not None else "" if word == "-" else word

    # --- not sent ---

    def _do_txn(self, words: list[str]) -> None:
        options, rest = _split(words[1:])
        if rest:
            group_id = options.get("group", "g")
            shard = self.rig.node.core.shard_of(group_id).index
            self.rig.ask(EndTransaction(int(words[0]), 0, rest == ["commits"], shard))
        else:
            self.rig.ask(transactional_commit(int(words[0]), options, self._clients.get(options.get("member", ""))))

    def _client_set(self, client: Client, words: list[str]) -> None:
        client.options |= _split(words)[0]

    def _client_hangs(self, client: Client, words: list[str]) -> None:
        self.rig.lose(client.link)

    def _client_reconnects(self, client: Client, words: list[str]) -> None:
        client.link = self._connect(client.name)

    def _client_forgets(self, client: Client, words: list[str]) -> None:
        client.member_id = ""

    def _do_config(self, words: list[str]) -> None:
        for key, value in _split(words)[0].items():
            name = key.replace(".", "_")
            self._settings[name] = int(value)
        if self._rig is not None:
            self._rig.config = self._config()

    def _do_given(self, words: list[str]) -> None:
        options, names = _split(words[1:])
        before = len(self.output)
        clients = []
        for word in names:
            name, _, instance = word.partition("#")
            client = self._client(name)
            client.options |= options | ({"instance": instance} if instance else {})
            clients.append(client)
        _GIVEN[words[0]](self, clients)
        del self.output[before:]
        self._do_state([clients[0].options["group"]])

    def join_all(self, clients: list[Client]) -> None:
        for client in clients:
            self.run(f"{client.name}: join")
            if client.member_id:  # it got the member id for its next join
                self.run(f"{client.name}: join")

    def complete(self, clients: list[Client]) -> None:
        self.join_all(clients)
        group_id = clients[0].options["group"]
        while self.state_of(group_id) is GroupState.PREPARING:
            self.rig.wait(500)

    def stabilise(self, clients: list[Client]) -> None:
        self.complete(clients)
        leader = next(client for client in clients if client.leader == client.member_id)
        assignments = " ".join(f"{client.name}={client.name.upper()}" for client in clients)
        for client in clients:
            self.run(f"{client.name}: sync {assignments if client is leader else ''}")

    def state_of(self, group_id: str) -> GroupState | None:
        found = self.rig.node.core.directory.get(group_id)
        return None if found is None else found.classic.state

    def _do_state(self, words: list[str]) -> None:
        for group_id in words or ["g"]:
            found = self.rig.node.core.directory.get(group_id)
            self.output.append(f"{group_id} absent" if found is None else lines.group(found.classic))

    def _do_wait(self, words: list[str]) -> None:
        before = len(self.output)
        self.rig.wait(milliseconds(words[0]))
        # A time at which nothing happened gets no line.
        kept = self.output[before:]
        del self.output[before:]
        for line, following in zip(kept, [*kept[1:], "--"], strict=True):
            if not (line.startswith("-- after") and following.startswith("--")):
                self.output.append(line)

    def _do_stall(self, words: list[str]) -> None:
        self.rig.stall(milliseconds(words[0]))

    def _do_clock(self, words: list[str]) -> None:
        self.rig.wall_ms += milliseconds(words[0])

    def _do_hold(self, words: list[str]) -> None:
        self.rig.holds_disk = True

    def _do_release(self, words: list[str]) -> None:
        self.rig.release_disk()

    def _do_crash(self, words: list[str]) -> None:
        self.rig.crash()
        self._reconnect()

    def _do_restart(self, words: list[str]) -> None:
        self.rig.restart()
        self._reconnect()

    def _reconnect(self) -> None:
        for client in self._clients.values():
            client.link = self._connect(client.name)

    def _do_stop(self, words: list[str]) -> None:
        self.rig.stop()

    def _do_unload(self, words: list[str]) -> None:
        self.rig.unload()

    def _do_shards(self, words: list[str]) -> None:
        for shard in self.rig.node.core.shards:
            shard.state = ShardState(words[0])

    def _do_fail(self, words: list[str]) -> None:
        self.rig.fails = AppendError.RECORD_TOO_LARGE if "large" in words else AppendError.DISK_FULL

    def _do_log(self, words: list[str]) -> None:
        self.rig.append_unlisted("g", write_log(words))

    def _do_shard(self, words: list[str]) -> None:
        placement = self.rig.node.core.placement
        self.output.append(f"shard {placement.shard_of(words[0])} of {placement.shards}")


def _split(words: list[str]) -> tuple[Options, list[str]]:
    options = dict(word.split("=", 1) for word in words if "=" in word)
    return options, [word for word in words if "=" not in word]


def _learn(client: Client, reply: JoinGroupReply) -> None:
    if reply.error_code is ErrorCode.MEMBER_ID_REQUIRED:
        client.member_id = reply.member_id
    elif not reply.error_code:
        client.member_id, client.generation, client.leader = reply.member_id, reply.generation_id, reply.leader


_GIVEN: dict[str, Callable[[Script, list[Client]], None]] = {
    "preparing": Script.join_all,
    "completing": Script.complete,
    "stable": Script.stabilise,
}
