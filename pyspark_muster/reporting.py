"""Reports of a query's member to its coordinator, for `muster groups describe`; the replies say whether an operator has
requested a drain.

Reports go over a connection of their own, in a thread, since a slow report must delay neither the group nor Spark. A
coordinator that does not accept reports (Kafka's, or one reached by Kafka's protocol) is asked once.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from muster import ErrorCode, MusterError
from muster.blocking import ClusterClient
from protocol.messages.groups import ReportedFact
from protocol.messages.reports import LONGEST_FACT, ReportMember, ReportMemberReply
from pyspark_muster.options import Options

PAUSE_S = 1.0
Facts = Mapping[str, str]


class Coordinators(Protocol):
    """Sends requests to a group's coordinator, as a `ClusterClient` does."""

    def ask_coordinator(
        self, kind: type[ReportMemberReply], group_id: str, message: ReportMember
    ) -> ReportMemberReply: ...

    def close(self) -> None: ...


class Reporter:
    """Sends the member's id and facts, which `describe` returns, about once a second. `is_draining` is true if an
    operator has requested a drain. `describe` is called in the reporter's thread.
    """

    def __init__(
        self,
        options: Options,
        describe: Callable[[], tuple[str, Facts]],
        connect: Callable[[], Coordinators] | None = None,
    ) -> None:
        self.is_draining = False
        self._options = options
        self._describe = describe
        self._connect = connect or self._cluster_client
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="muster-reporter", daemon=True)

    def start(self) -> None:
        """Start, unless the bootstrap is a listener of Kafka's protocol, which has no reports."""
        if not self._options.bootstrap.startswith("kafka://"):
            self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end, without waiting for a report in flight."""
        self._is_stopped.set()

    def _cluster_client(self) -> ClusterClient:
        options = self._options
        return ClusterClient(
            options.bootstrap,
            client_id=options.client_id,
            security=options.security,
            broker_security=options.broker_security,
        )

    def _run(self) -> None:
        cluster = self._connect()
        try:
            while not self._is_stopped.wait(PAUSE_S):
                if not self.report(cluster):
                    return
        finally:
            cluster.close()

    def report(self, cluster: Coordinators) -> bool:
        """Send one report; return false if the coordinator accepts none. After a failure the next report follows as
        usual."""
        member_id, facts = self._describe()
        if not member_id:
            return True
        reported = tuple(ReportedFact(name, text[:LONGEST_FACT]) for name, text in facts.items())
        group = self._options.group
        try:
            reply = cluster.ask_coordinator(ReportMemberReply, group, ReportMember(group, member_id, reported))
        except MusterError as error:
            return getattr(error, "error_code", None) != ErrorCode.UNSUPPORTED_VERSION
        if not reply.error_code:
            self.is_draining = self.is_draining or reply.is_draining
        return True
