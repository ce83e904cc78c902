"""A member of a group for applications that read by themselves: code that members of both edges share."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar, Self

from membership.events import Subscribed, SubscribedToPattern, SubscribedToRegex
from membership.topic_partition import TopicPartition
from muster.client.member import DEFAULT_ASSIGNORS, Listener, MemberProcedures, listeners, member_settings_of
from muster.client.steps import LET_OTHERS_RUN, Procedure, call_application
from muster.client.topics import TopicProcedures
from muster.core.completions import Done, Partitions
from muster.core.fetching.settings import FetchSettings, isolation
from muster.core.lookups import Lookups
from muster.core.subscriptions import check_regex, topic_names
from muster.net.bootstrap import parse_bootstrap
from muster.net.security import SecurityLike


class GroupMemberProcedures(TopicProcedures):
    """The procedures that members of both edges share: everything except waiting."""

    _runner_of: ClassVar[type[Any]]
    """The runner of the edge."""

    def __init__(
        self,
        bootstrap: str,
        group_id: str,
        topics: Iterable[str],
        *,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
        session_timeout_ms: int = 45_000,
        heartbeat_interval_ms: int = 3_000,
        max_poll_interval_ms: int = 300_000,
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1_000,
        metadata_max_age_ms: int = 300_000,
        group_protocol: str = "classic",
        assignors: Iterable[str] = DEFAULT_ASSIGNORS,
        server_assignor: str | None = None,
        group_instance_id: str | None = None,
        rack_id: str | None = None,
        isolation_level: str = "read_uncommitted",
        client_id: str = "muster",
        dialect: str | None = None,
        security: SecurityLike | None = None,
        broker_security: SecurityLike | None = None,
    ) -> None:
        """`on_lost` None: `on_revoked` is called instead. `dialect` is "native" or "kafka"; without it the bootstrap
        decides ("kafka://HOST:PORT"). `security` configures connections to the bootstrap, and to servers of the same
        protocol; `broker_security` those to Kafka's brokers beside musterd, if different. `isolation_level`
        "read_committed": `end_offsets` end before the oldest open transaction. Raises ValueError for settings that
        cannot work.
        """
        if isinstance(topics, str):
            raise ValueError(f"topics is {topics!r}: a list of names is wanted")
        settings = member_settings_of(
            group_id,
            rack_id,
            {
                "session_timeout_ms": session_timeout_ms,
                "heartbeat_interval_ms": heartbeat_interval_ms,
                "max_poll_interval_ms": max_poll_interval_ms,
                "request_timeout_ms": request_timeout_ms,
                "retry_backoff_ms": retry_backoff_ms,
                "retry_backoff_max_ms": retry_backoff_max_ms,
                "metadata_max_age_ms": metadata_max_age_ms,
                "group_protocol": group_protocol,
                "assignors": assignors,
                "server_assignor": server_assignor,
                "group_instance_id": group_instance_id,
            },
        )
        runner = self._runner_of(parse_bootstrap(bootstrap, dialect, security, broker_security), client_id, "member")
        super().__init__(runner, Lookups(FetchSettings(isolation=isolation(isolation_level)), runner.driver.jitter))
        audience = listeners(on_assigned, on_revoked, on_lost)
        self._member = MemberProcedures(runner.driver, settings, topics, audience)

    @classmethod
    def of(cls, procedures: TopicProcedures, member: MemberProcedures) -> Self:
        """Return the member of a consumer, with the consumer's lookups."""
        made = cls.__new__(cls)
        made.__dict__.update(procedures.__dict__, _member=member)
        return made

    # -- state

    @property
    def assignment(self) -> Partitions:
        """Partitions that `on_assigned` got last, less those revoked since."""
        return self._member.assignment

    @property
    def group_id(self) -> str:
        """The group that it belongs to."""
        return self._member.settings.group_id

    @property
    def group_instance_id(self) -> str | None:
        """The instance id of a static member; None for any other."""
        return self._member.settings.group_instance_id

    @property
    def generation_id(self) -> int:
        """-1 outside of a generation."""
        with self._runner.locked():
            return self._member.membership.generation_id

    @property
    def member_id(self) -> str:
        """Empty before the coordinator gave one."""
        with self._runner.locked():
            return self._member.membership.member_id

    @property
    def is_steady(self) -> bool:
        """True if it is in the group with a known assignment, and `poll` has no rebalance to serve."""
        with self._runner.locked():
            return self._member.is_steady

    @property
    def needs_poll(self) -> bool:
        """True if `poll` has a rebalance to serve or something to tell."""
        with self._runner.locked():
            return self._member.needs_poll

    @property
    def has_nothing_to_read(self) -> bool:
        """True if no topic matches the pattern, as far as is known."""
        with self._runner.locked():
            return self._member.membership.has_nothing_to_read

    def wakeup(self) -> None:
        """Interrupt the call in which this member waits, or the next one: it raises `WokenUp`. May be called from any
        thread."""
        with self._runner.locked():
            self._member.operations.wake()

    def subscribe(self, topics: Iterable[str] = (), *, pattern: str | None = None) -> None:
        """Read other topics from now on, or all whose whole name matches `pattern`; the next `poll` serves the
        rebalance that follows. Raises ValueError.
        """
        names = topic_names(topics, pattern)
        with self._runner.entered(), self._runner.locked():
            self._member.feed(Subscribed(names) if pattern is None else SubscribedToPattern(pattern))

    def subscribe_pattern(self, pattern: str) -> None:
        """All topics from now on whose whole name the coordinator finds to match `pattern`, by RE2's rules and internal
        ones too; for `group_protocol` "consumer" or "auto". Raises ValueError.
        """
        regex = check_regex(pattern, self._member.settings.group_protocol)
        with self._runner.entered(), self._runner.locked():
            self._member.feed(SubscribedToRegex(regex))

    def commit_later(
        self, offsets: Mapping[TopicPartition, int], callback: Callable[[Done], object] = lambda _done: None
    ) -> int:
        """Send a commit once and do not wait; `callback` is called from a later `poll`, `commit` or `close`, in the
        order in which commits ended. Return its number. Raises ValueError for a negative offset.
        """
        with self._runner.entered(), self._runner.locked():
            return self._member.commit_later(offsets, partial(call_application, callback))

    def _poll(self, timeout_s: float) -> Procedure[bool]:
        yield LET_OTHERS_RUN
        return (yield from self._member.poll(timeout_s, self._runner.check_open))

    def _close(self, timeout_s: float) -> Procedure[None]:
        self._member.operations.sleep_through()
        yield from self._member.close(timeout_s)
