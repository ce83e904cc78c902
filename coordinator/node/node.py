"""`Node`: the whole service minus its I/O. Edges call `step(event, moment) -> effects`; `step_many` is the same for
several events.

It never awaits, reads no clock and opens no socket; a step runs to completion and nothing interleaves. So groups need
no lock, and an expiry cannot race with a heartbeat.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from msgspec.structs import replace

from coordinator.clock import Moment
from coordinator.config.config import Config
from coordinator.core.budget import OVERDUE_A_STEP
from coordinator.core.core import Core
from coordinator.groups.classic.events import SessionOverdue
from coordinator.groups.consumer.events import SessionExpired
from coordinator.groups.consumer.topics import TopicImage
from coordinator.handlers import find_coordinator
from coordinator.handlers.audited import audit_act, audited
from coordinator.handlers.fetch_completion import WokenFetches, fetch_ready
from coordinator.handlers.find_coordinator import LookupReady
from coordinator.handlers.produce import FLUSHED, ProduceAnswered, answer_produces, produce_waiting
from coordinator.node import scheduled_tasks
from coordinator.node.authorization import LocalAuthorization
from coordinator.node.build import Ids, MakeShards, make_core
from coordinator.node.certificates import CertificatePrincipals
from coordinator.node.dialects import make_dialects
from coordinator.node.disk_news import DiskNews
from coordinator.node.effects import Effect, Flush, RunJob, WriteAudit
from coordinator.node.events import (
    Call,
    Ended,
    Event,
    Flushed,
    Idle,
    JobDone,
    Lost,
    Opened,
    PasswordChecked,
    PasswordGiven,
    PasswordWithdrawn,
    Received,
    SessionShown,
    Stopping,
    Woke,
)
from coordinator.node.http_logins import HttpLogins
from coordinator.node.login_checks import LoginChecks
from coordinator.node.logins import LoginRefusalDue, Logins
from coordinator.node.member_ownership import MemberOwnership, has_joined
from coordinator.node.note_lines import log_note
from coordinator.node.serving import Serving
from coordinator.node.throttling import LOOK_TASK, ThrottleOver, Throttling
from coordinator.node.unloading import unload
from coordinator.runtime.loader import Loadings
from coordinator.runtime.snapshot import to_keep
from coordinator.tasks.scheduled_task import TaskDue
from coordinator.topics.embedded import FetchReady
from coordinator.topics.offsets_topic import advanced
from partition_log.log.state_snapshots import NewStateSnapshot
from partition_log.store.log_store import CheckpointJob, LogStore

_CHECKPOINT, _CHECKPOINT_EVERY_MS = "checkpoint", 1_000

Handle = Callable[[Any, Moment], None]


class AnyNode(Protocol):
    """A `Node`, or a gateway around one, as the edge sees it."""

    core: Core
    loads: Loadings

    @property
    def next_deadline_ms(self) -> int | None:
        """See `Node`."""

    @property
    def is_loaded(self) -> bool:
        """See `Node`."""

    def step(self, event: Event, moment: Moment, /) -> list[Effect]:
        """See `Node`."""

    def step_many(self, events: Sequence[Event], moment: Moment, /) -> list[Effect]:
        """See `Node`."""

    def snapshots(self) -> Iterator[NewStateSnapshot]:
        """See `Node`."""


class Node:
    """One process's share of the service. `addresses` has the addresses for clients of each dialect; `store` must be
    open. `topics`: the topics of consumer groups; None: the embedded ones. `make_shards`: the factory of shards and
    their logs; None: in `store`. A gateway adds its own events to `handlers`, tasks to `tasks` and delayed operations
    to `completions`."""

    def __init__(
        self,
        config: Config,
        store: LogStore,
        ids: Ids,
        addresses: Mapping[str, tuple[str, int]],
        started: Moment,
        topics: TopicImage | None = None,
        make_shards: MakeShards | None = None,
    ) -> None:
        core = self.core = make_core(config, store, ids, addresses, started, topics, make_shards)
        dialects = make_dialects(config, knows_repeated_commits=True)
        self.effects: list[Effect] = []
        """Effects of this step so far."""
        self.serving = Serving(core, self.effects, lambda event: dialects[event.dialect].open())
        self.loads = core.loads
        checks = LoginChecks(self.effects)
        self.logins = Logins(core, self.serving, self.effects, checks)
        self.http_logins = HttpLogins(core, self.logins, checks)
        core.journal.on_act = partial(audit_act, core)
        core.journal.on_note = partial(log_note, self.effects)
        self.serving.handlers = audited(self.serving.handlers)
        CertificatePrincipals(core, self.serving, config.ssl_principal_mapping_rules)
        if config.has_accounts or config.tls_client_ca_location is not None:
            self.serving.handlers = MemberOwnership(core).guarded(self.serving.handlers)
            self.serving.repeated.guards.append(partial(has_joined, core))
        if config.has_accounts:
            LocalAuthorization(core).take_part(self.serving)
        if config.wants_logins:
            self.logins.take_part(self.serving)
        self.throttling = Throttling(core, self.serving)
        self.logins.on_login = self.throttling.logged_in
        self.handlers: dict[type[Event], Handle] = {
            Received: self.serving.received,
            Woke: self._woke,
            Flushed: self._flushed,
            Opened: self.serving.opened,
            Ended: self.serving.ended,
            Idle: self.serving.idle,
            Lost: self.serving.lost,
            JobDone: self._job_done,
            Call: self.serving.called,
            PasswordChecked: checks.checked,
            PasswordGiven: self.http_logins.given,
            PasswordWithdrawn: self.http_logins.withdrawn,
            SessionShown: self.http_logins.shown,
            Stopping: self._stopping,
        }
        """Handler of each event."""
        self.tasks: dict[str, Callable[[Moment], None]] = {
            name: self._run_task(name) for name in scheduled_tasks.TASKS
        } | {_CHECKPOINT: self._look_at_disk, LOOK_TASK: self.throttling.look}
        """Slice of each scheduled task."""
        self.completions: dict[type, Handle] = {
            FetchReady: lambda event, _moment: fetch_ready(core, event),
            LookupReady: lambda event, _moment: find_coordinator.answer(core, event.ref, event.message),
            ProduceAnswered: lambda event, _moment: answer_produces(core, (event,)),
            TaskDue: lambda event, moment: self.tasks[event.name](moment),
            SessionExpired: self._session_over,
            SessionOverdue: self._session_over,
            LoginRefusalDue: self.logins.refuse,
            ThrottleOver: self.throttling.over,
        }
        """Handler of each event that a delayed operation completes with; all others are events of a group."""
        self._woken_fetches = WokenFetches()
        self._next_call = 0
        self._disk_news = DiskNews(store, config.data_dir)
        core.schedule(_CHECKPOINT, started.monotonic_ms + _CHECKPOINT_EVERY_MS)
        scheduled_tasks.begin(core, started)
        self._wants_step = True
        self._is_round = False

    @property
    def next_deadline_ms(self) -> int | None:
        """Deadline at which the node must be woken (`Woke`) if nothing else happens; a time already past
        means at once."""
        core = self.core
        if self._wants_step or self.serving.waiting or self._woken_fetches.keys or core.outbox or core.slices.is_ready:
            return -(2**62)
        return core.purgatory.next_deadline_ms

    @property
    def is_loaded(self) -> bool:
        """True if every shard has been loaded, or has failed to load."""
        return not self.loads.left

    def step(self, event: Event, moment: Moment) -> list[Effect]:
        """Handle the event and all its consequences; return the effects, in order."""
        return self.step_many((event,), moment)

    def step_many(self, events: Sequence[Event], moment: Moment) -> list[Effect]:
        """Do the same as `step` for several events, in order. They share the budget of one step."""
        core = self.core
        core.budget.refill(len(core.outbox.ready))
        for event in events:
            self.handlers[type(event)](event, moment)
        self._wants_step = False
        deadline_ms = core.purgatory.next_deadline_ms
        if deadline_ms is not None and deadline_ms <= moment.monotonic_ms:
            self._run_overdue(moment)
        if self._woken_fetches.keys:
            self._woken_fetches.continue_checks(core)
        if self._is_round:
            self._is_round = False
            self._continue(moment)
        self._wants_step |= bool(self.loads.left)
        self.serving.send(moment)
        job = core.store.begin_flush()
        if job is not None:
            self.effects.append(Flush(job))
        if core.audit.is_on and (lines := core.audit.take()):
            self.effects.append(WriteAudit(lines))
        effects = self.effects.copy()
        self.effects.clear()
        return effects

    def snapshots(self) -> Iterator[NewStateSnapshot]:
        """Snapshots for the next start, to be written once this node has stopped and its logs are whole."""
        return to_keep(self.core.shards)

    # --- events ---

    def _woke(self, event: Woke, moment: Moment) -> None:
        """Begin a round of the tasks that take many steps. Overdue operations expire in every step."""
        self._is_round = True

    def _flushed(self, event: Flushed, moment: Moment) -> None:
        core = self.core
        flushed = core.store.finish_flush(event.up_to)
        self.effects += self._disk_news.report()
        core.outbox.release(core.store.flushed)
        core.slices.unblock()
        answer_produces(core, core.purgatory.check_and_complete(FLUSHED))
        if core.fetches.watched:
            for key in advanced(flushed):
                self._woken_fetches.add(core.purgatory.listening_to(key))
        for key in core.embedded.advanced():
            self._woken_fetches.add(core.purgatory.listening_to(key))
        self._checkpoint(force=False)

    def _checkpoint(self, *, force: bool) -> None:
        job = self.core.store.begin_checkpoint(force=force)
        if job is not None:
            self._next_call += 1
            self.effects.append(RunJob(self._next_call, job))

    def _job_done(self, event: JobDone, moment: Moment) -> None:
        assert isinstance(event.reply, CheckpointJob)
        self.core.store.finish_checkpoint(event.reply)
        self.core.slices.unblock()
        self.effects += self._disk_news.report()
        if self.core.waiting_produces.waiting:
            produce_waiting(self.core, moment)
            self._checkpoint(force=False)

    def _stopping(self, event: Stopping, moment: Moment) -> None:
        unload(self.core, moment)
        self.core.audit.tick(moment, is_end=True)

    # --- what follows from any event ---

    def _run_overdue(self, moment: Moment) -> None:
        purgatory = self.core.purgatory
        for _ in range(OVERDUE_A_STEP):
            events = purgatory.pop_overdue(moment.monotonic_ms)
            if events is None:
                return
            for event in events:
                self.complete(event, moment)
            if self.core.budget.has_read_enough:
                break
        self._wants_step = True

    def complete(self, event: Any, moment: Moment) -> None:
        """Handle the completion of a delayed operation."""
        handle = self.completions.get(type(event))
        if handle is not None:
            handle(event, moment)
            return
        shard, group = self.core.find(event.group_id)
        if group is not None:
            shard.process(group, event, moment)

    def _session_over(self, event: SessionOverdue | SessionExpired, moment: Moment) -> None:
        """Run the end of a session, unless the member has gone. Its heartbeats may wait on its connection."""
        shard, group = self.core.find(event.group_id)
        if group is None:
            return
        kind = group.classic if isinstance(event, SessionOverdue) else group.consumer
        member = None if kind is None else kind.members.get(event.member_id)
        if member is not None:
            is_kept_waiting = self.serving.keeps_waiting(member.connection)
            shard.process(group, replace(event, is_kept_waiting=is_kept_waiting), moment)

    def _run_task(self, name: str) -> Callable[[Moment], None]:
        def run(moment: Moment) -> None:
            scheduled_tasks.run_task(self.core, name, moment)
            self._checkpoint(force=False)  # a checkpoint may let cleaning continue

        return run

    def _look_at_disk(self, moment: Moment) -> None:
        """Begin a checkpoint if one is due, and flush notes that no other flush has covered. A checkpoint is also
        retried on a full disk: its success ends that state."""
        self.core.store.deferral.end()
        self._checkpoint(force=self.core.store.disk_full)
        self.effects += self._disk_news.report()
        self.core.audit.tick(moment)
        self.core.store.producer_expiration.run(moment.wall_ms, self.core.config.producer_id_expiration_ms)
        self.core.schedule(_CHECKPOINT, moment.monotonic_ms + _CHECKPOINT_EVERY_MS)

    def _continue(self, moment: Moment) -> None:
        """Continue the tasks that take many steps, once a round, however many requests there are."""
        if self.loads.left:
            self.loads.continue_load(moment)
        if self.core.slices.is_ready:
            self.core.slices.continue_requests(self.core.outbox, moment)
        if self.serving.waiting:
            self.serving.serve_waiting(moment)
