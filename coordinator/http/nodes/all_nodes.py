"""EDGE: requests to all nodes that serve the requested groups, in parallel and with a deadline."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final, NamedTuple

from coordinator.http.nodes.client import NodeAnswer, NodeClient, NodeSilent
from coordinator.http.nodes.shares import divided, is_about_all, joined, named_groups
from coordinator.http.nodes.unavailable import note_silent, note_unserved
from coordinator.http.queries import Ask, Problem, Queries
from coordinator.http.watch import ProblemWatch
from coordinator.placement import AdvertisedAddress, Placement
from diagnosis.gathering import Known
from diagnosis.problem import GroupProblem
from protocol.errors import ErrorCode
from protocol.messages import Message

HTTP: Final = "http"
ANSWER_WITHIN_S: Final = 3.0
"""Time that a list waits for a node: shorter than the session after which other nodes take over its shards."""
_NO_LISTENER: Final = "it has no HTTP address (--http, --advertised http=HOST:PORT)"


class NodesPlan(NamedTuple):
    """Placement of groups, the shards that this node serves now, and TLS for connections to other nodes, if they use
    it."""

    placement: Placement
    served: Callable[[], Collection[int]]
    tls: Callable[[], ssl.SSLContext] | None = None


ALONE: Final = NodesPlan(Placement(1, 1, {}), lambda: (0,))
"""The plan of a node that shares its groups with no other."""


class AllNodes:
    """Sends requests to this node by `own`, and to the others' listeners. Nodes and shards without an answer are noted
    for the page; a request about one group raises Problem instead."""

    def __init__(
        self, plan: NodesPlan, own: Ask, client: NodeClient, ask_timeout_s: float, list_timeout_s: float
    ) -> None:
        self._placement, self._served = plan.placement, plan.served
        self._me = AdvertisedAddress(plan.placement.node_id, "", -1)
        self._own, self._client = own, client
        self._ask_timeout_s, self._list_timeout_s = ask_timeout_s, list_timeout_s

    async def ask(self, message: Message) -> Message:
        """Return the reply of the nodes that serve the request's groups; this node's, if it is about no group."""
        if is_about_all(message):
            return await self._ask_all(message)
        match named_groups(message):
            case ():
                return await self._own(message)
            case (group_id,):
                return await self._ask_owner(message, group_id)
            case _:
                return await self._ask_owners(message)

    async def others_problems(self) -> list[GroupProblem]:
        """Return the open problems of the other nodes' groups."""

        async def problems(node: AdvertisedAddress) -> list[GroupProblem]:
            try:
                return await self._client.problems(node, self._list_timeout_s)
            except NodeSilent as silent:
                note_silent(node.node_id, str(silent))
                return []

        return [problem for some in await asyncio.gather(*map(problems, self._others())) for problem in some]

    def _others(self) -> list[AdvertisedAddress]:
        """Return the other nodes that can be reached, and note those that cannot."""
        others = [node for node in self._placement.nodes(HTTP) if node.node_id != self._me.node_id]
        for node_id in {*self._placement.node_ids} - {self._me.node_id, *(node.node_id for node in others)}:
            note_silent(node_id, _NO_LISTENER)
        return others

    def _node_of(self, group_id: str) -> AdvertisedAddress | None:
        """Return the node that serves the group; None, and a note, if there is none."""
        shard = self._placement.shard_of(group_id)
        node = self._me if self._placement.is_mine(shard) else self._placement.coordinator_of(shard, HTTP)
        if node is None:
            note_unserved((shard,))
        return node

    async def _ask_owner(self, message: Message, group_id: str) -> Message:
        node = self._node_of(group_id)
        if node is None:
            raise Problem(503, f"no node that can be asked has the shard of group {group_id[:80]!r} now; try again")
        if node == self._me:
            return await self._own(message)
        try:
            return (await self._client.ask(node, message, self._ask_timeout_s)).reply
        except NodeSilent as silent:
            sentence = f"node {node.node_id} has group {group_id[:80]!r}: {silent}"
            raise Problem(504 if silent.is_late else 503, sentence) from None

    async def _ask_owners(self, message: Message) -> Message:
        """Ask each node for its groups; groups without an answer are omitted."""
        if self._placement.node_ids == (self._me.node_id,):  # a list asks a hundred times
            answers = [await self._answer(self._me, message)]
        else:
            shares = divided(message, self._node_of)
            shares.pop(None, None)
            answers = await asyncio.gather(*(self._answer(node, share) for node, share in shares.items() if node))
        replies = [answer.reply for answer in answers if answer is not None]
        if not replies:
            raise Problem(503, "no node that has these groups answers; try again")
        return replies[0] if len(answers) == 1 else joined(message, replies)

    async def _ask_all(self, message: Message) -> Message:
        """Ask each node for all its groups."""
        before = frozenset(self._served())
        asked = asyncio.gather(*(self._answer(node, message) for node in self._others()))
        own, theirs = await asyncio.gather(self._own(message), asked)
        answers = [answer for answer in theirs if answer is not None]
        error = _error_of(own)
        if error and not answers:
            return own
        if error:
            note_silent(self._me.node_id, f"it answered {error.name}")
        else:
            answers.insert(0, NodeAnswer(own, before.intersection(self._served())))
        note_unserved(set(range(self._placement.shards)).difference(*(answer.shards for answer in answers)))
        return joined(message, [answer.reply for answer in answers])

    async def _answer(self, node: AdvertisedAddress, message: Message) -> NodeAnswer | None:
        """Return a node's answer; None, and a note, if there is no usable one."""
        try:
            is_me = node == self._me
            answer = (
                NodeAnswer(await self._own(message))
                if is_me
                else await self._client.ask(node, message, self._list_timeout_s)
            )
        except NodeSilent as silent:
            note_silent(node.node_id, str(silent))
            return None
        if error := _error_of(answer.reply):
            note_silent(node.node_id, f"it answered {error.name}")
            return None
        return answer


class ClusterProblems:
    """Open problems of all nodes' groups; those of this node's groups come from its `watch`, as far as the caller may
    see them by `own`."""

    def __init__(self, watch: ProblemWatch, own: Queries, nodes: AllNodes) -> None:
        self._watch, self._own, self._nodes = watch, own, nodes

    async def shown_to(self, queries: Queries) -> list[GroupProblem]:
        """Return the problems, by group."""
        return await self._all(self._watch.shown_to(self._own))

    async def listed_for(self, queries: Queries, group_ids: Collection[str], now_ms: int) -> list[GroupProblem]:
        """Return the problems in a list of groups, by group."""
        return await self._all(self._watch.listed_for(self._own, group_ids, now_ms))

    def continued(self, found: Iterable[GroupProblem]) -> list[GroupProblem]:
        """Return the problems of a single look with what this node's rounds know of their beginning."""
        return self._watch.continued(found)

    def remembered(self, known: Known) -> Known:
        """Return the facts for a single look with those that this node's rounds remember."""
        return self._watch.remembered(known)

    async def _all(self, own: Awaitable[list[GroupProblem]]) -> list[GroupProblem]:
        found, theirs = await asyncio.gather(own, self._nodes.others_problems())
        return sorted([*found, *theirs], key=lambda one: one.group_id)


def _error_of(reply: Message) -> ErrorCode:
    error: ErrorCode = getattr(reply, "error_code", ErrorCode.NONE)
    return error
