"""The shards of a node whose logs are in the cluster: their part in the node's steps."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from coordinator.clock import Moment
from coordinator.cluster_log.cluster_shard import ClusterShard
from coordinator.cluster_log.effects import (
    AskProducerId,
    ReadLog,
    ShardCaughtUp,
    ShardHandedOver,
    ShardOwned,
    WriteBatch,
)
from coordinator.cluster_log.events import OwnershipRevoked
from coordinator.cluster_log.lease import Lease
from coordinator.cluster_log.settings import BootMoment, ClusterLogSettings
from coordinator.cluster_log.turns import ReadTurns
from coordinator.cluster_node.effects import CaughtUp, HandedOver, PublishNews, ShardRequest
from coordinator.cluster_node.events import (
    LeaseEnded,
    LeaseRenewed,
    LeftNodes,
    LogProblems,
    NewsReceived,
    NodeEnded,
    NodesFound,
    ShardChanged,
    ShardsToRead,
)
from coordinator.cluster_node.moves import ShardMoves
from coordinator.cluster_node.nodes import LetGo, Taken
from coordinator.cluster_node.placement import NodesPlacement
from coordinator.cluster_node.refusal import refusal_of
from coordinator.cluster_node.shard_log import ClusterLog, LogClock, ServedGroups, Unwritten
from coordinator.cluster_node.shard_service import ShardService
from coordinator.keys import MovedShardKey
from coordinator.node.effects import Effect, LogError
from coordinator.node.events import Event
from coordinator.node.node import Node
from coordinator.records.records import Note
from coordinator.runtime.outbox import LeasedOutbox
from coordinator.runtime.shard import Shard, ShardState, ShardTools

Addresses = Mapping[int, tuple[str, int]]
Share = Callable[[Addresses, Addresses], None]
"""Called with the listeners in front of brokers, by broker, and the coordinators by their ids in Kafka's protocol."""

_TASK = "shards"
_NEVER = 2**62


class ClusterShards:
    """Makes the shards (`make`) of the node that it then takes part in (`take_part`), whose steps are its own."""

    protocol: type[ClusterShard] = ClusterShard
    """Kind of the shards' protocol."""

    def __init__(self, settings: ClusterLogSettings, started: Moment, most_unwritten_bytes: int) -> None:
        self.lease = Lease(settings)
        self._turns = ReadTurns(self._next_turn)
        self.services: list[ShardService] = []
        self._settings = settings
        self._clock = LogClock(_boot(started))
        self._unwritten = Unwritten(most_unwritten_bytes)
        self._deadlines: list[int] = []
        self._logged_problems: list[str] = []
        self._scheduled_ms = _NEVER
        self._moves = ShardMoves(settings.session_ms)
        self._node: Node
        self._placement: NodesPlacement

    def make(self, count: int, tools: ShardTools) -> list[Shard]:
        """Make the shards, none of which is served yet."""
        self.services = [self._service(index, tools) for index in range(count)]
        self._deadlines, self._logged_problems = [_NEVER] * count, [""] * count
        return [service.shard for service in self.services]

    def _service(self, index: int, tools: ShardTools) -> ShardService:
        assert tools.slices is not None
        protocol = self.protocol(index, self._settings, self.lease, self._turns, self._clock.now)
        log = ClusterLog(protocol, self._clock, self._unwritten, self._settings.max_batch_bytes)
        outbox, groups = LeasedOutbox(tools.outbox, log.barrier, refusal_of), ServedGroups(tools.directory)
        own = tools._replace(outbox=outbox, directory=groups, share_notes=self._share_notes)
        return ShardService(Shard(index, log, own), log, outbox, groups, tools.slices, self._clock, self._note_move)

    def take_part(self, node: Node, share: Share = lambda listeners, coordinators: None) -> None:
        """Handle the events of the shards and of the nodes' group. `share` is called with the addresses that all nodes
        return to their clients."""
        self._node = node
        placement = self._placement = node.core.placement = NodesPlacement(
            node.core.placement, self._is_served, self._settings.session_ms
        )

        def found(event: NodesFound, moment: Moment) -> None:
            self._settled(placement.found(event, moment.monotonic_ms), moment)
            self._moves.found(event)
            share(placement.listeners(), placement.coordinators())

        def left(event: LeftNodes, moment: Moment) -> None:
            placement.left()
            share(placement.listeners(), placement.coordinators())

        node.handlers |= {
            ShardChanged: self._shard_changed,
            LeaseRenewed: self._lease_renewed,
            LeaseEnded: self._lease_ended,
            NodesFound: found,
            LeftNodes: left,
            NodeEnded: self._node_ended,
            LogProblems: self._problems,
            ShardsToRead: self._to_read,
            NewsReceived: self._on_news,
        }
        node.tasks[_TASK] = self._look_at_clock

    def _is_served(self, shard: int) -> bool:
        return self.services[shard].shard.state is ShardState.ACTIVE

    def step(self, event: Event, moment: Moment) -> list[Effect]:
        """See `Node`."""
        return self.step_many((event,), moment)

    def step_many(self, events: Sequence[Event], moment: Moment) -> list[Effect]:
        """See `Node`. Records appended in the step are written at its end: one batch per shard."""
        self._clock.now = _boot(moment)
        effects = self._node.step_many(events, moment)
        if self._clock.changed:
            while self._clock.changed:
                self._take_effects(self.services[self._clock.changed.popitem()[0]], moment)
            self._schedule(moment)
            effects += self._node.effects
            self._node.effects.clear()
        return effects

    # --- events ---

    def _shard_changed(self, event: ShardChanged, moment: Moment) -> None:
        service = self.services[event.shard]
        if isinstance(event.event, OwnershipRevoked):
            self._placement.expect(event.shard, moment.monotonic_ms)
        service.happen(event.event, moment)
        self._take_effects(service, moment)

    def _lease_renewed(self, event: LeaseRenewed, moment: Moment) -> None:
        self.lease.heartbeat_succeeded(event.sent_boot_ms, moment.boot_ms)

    def _lease_ended(self, event: LeaseEnded, moment: Moment) -> None:
        self.lease.end()

    def _node_ended(self, event: NodeEnded, moment: Moment) -> None:
        self._placement.ended(event.node_id, moment.monotonic_ms)
        self._moves.ended(event.node_id, moment.boot_ms)

    def _problems(self, event: LogProblems, moment: Moment) -> None:
        core = self._node.core
        core.log_problems = event.problems
        core.gauges["log_problems"] = len(event.problems)

    def _to_read(self, event: ShardsToRead, moment: Moment) -> None:
        self._node.core.gauges["shards_to_read"] = event.count

    # --- notes ---

    def _share_notes(self, notes: list[Note]) -> list[Note]:
        """Send notes to the other nodes; return notes on this node itself, which concern no group."""
        if shared := tuple(note for note in notes if note.group_id):
            self._node.effects.append(PublishNews(shared))
        return [note for note in notes if not note.group_id]

    def _on_news(self, event: NewsReceived, moment: Moment) -> None:
        for news in event.news:
            match news:
                case LetGo():
                    self._let_go(news, moment)
                case Taken():
                    self._taken(news, moment)
                case Note():
                    self._node.core.journal.merge(news)

    def _let_go(self, news: LetGo, moment: Moment) -> None:
        self._moves.let_go(news)
        self._placement.let_go(news, moment.monotonic_ms)

    def _taken(self, news: Taken, moment: Moment) -> None:
        if self._placement.taken(news):
            self._settled((news.shard,), moment)

    def _settled(self, shards: Iterable[int], moment: Moment) -> None:
        """Answer the lookups that waited for these shards."""
        for shard in shards:
            for event in self._node.core.purgatory.check_and_complete(MovedShardKey(shard)):
                self._node.complete(event, moment)

    def _note_move(self, shard: Shard, owned: ShardOwned, moment: Moment) -> Iterator[int]:
        """Tell the nodes that this one serves the shard, and its groups that they moved."""
        news = Taken(shard.index, owned.tag, self._placement.node_id)
        self._taken(news, moment)
        self._node.effects += (PublishNews((news,)), CaughtUp(shard.index))
        return self._moves.append_notes(shard, owned, news.node_id, moment)

    # --- what follows ---

    def _next_turn(self, shard: int) -> None:
        """Let the shard, which waited for its turn, read."""
        self.services[shard].log.protocol.reader.hasten()
        self._clock.changed[shard] = None

    def _take_effects(self, service: ShardService, moment: Moment) -> None:
        protocol = service.log.protocol
        for effect in protocol.take_effects(self._clock.now):
            if isinstance(effect, AskProducerId | WriteBatch | ReadLog):
                self._node.effects.append(ShardRequest(effect))
                continue
            if isinstance(effect, ShardCaughtUp):
                service.when_applied(partial(self._caught_up, protocol.index))
                continue
            service.take(effect, moment)
            if isinstance(effect, ShardHandedOver):
                self._node.effects.append(HandedOver(protocol.index))
                if effect.tag >= 0:
                    let_go = LetGo(protocol.index, effect.tag, moment.wall_ms)
                    self._let_go(let_go, moment)
                    self._node.effects.append(PublishNews((let_go,)))
        self._deadlines[protocol.index] = protocol.next_deadline_ms
        self._log_problem(protocol)

    def _log_problem(self, protocol: ClusterShard) -> None:
        """Log once why a shard is not served."""
        if protocol.problem == self._logged_problems[protocol.index]:
            return
        self._logged_problems[protocol.index] = protocol.problem
        if protocol.problem:
            text = f"shard {protocol.index} is not served here: {protocol.problem}"
            self._node.effects.append(LogError(text, "info", "shard lost"))

    def _caught_up(self, shard: int) -> Iterator[int]:
        self._node.effects.append(CaughtUp(shard))
        yield 1

    def _schedule(self, moment: Moment) -> None:
        """Schedule the next step at the earliest deadline of the shards' protocols."""
        soonest_ms = min(self._deadlines, default=_NEVER)
        if soonest_ms < self._scheduled_ms:
            self._scheduled_ms = soonest_ms
            self._node.core.schedule(_TASK, moment.monotonic_ms + soonest_ms - moment.boot_ms)

    def _look_at_clock(self, moment: Moment) -> None:
        self._scheduled_ms = _NEVER
        for index, deadline_ms in enumerate(self._deadlines):
            if deadline_ms <= moment.boot_ms:
                self._clock.changed[index] = None
        if not self._clock.changed:
            self._schedule(moment)


def _boot(moment: Moment) -> BootMoment:
    return BootMoment(moment.boot_ms, moment.wall_ms)
