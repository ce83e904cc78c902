"""Reports of a query's member to its coordinator: what operators see in `muster groups describe`, and whether they want
the query drained.

They go over a connection of their own, in a thread: a report that waits must hold up neither the group nor Spark. A
coordinator that takes no reports (Kafka's, or reached by Kafka's protocol) is asked once.
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
    """Asks a group's coordinator, as a `ClusterClient` does."""

    def ask_coordinator(
        self, kind: type[ReportMemberReply], group_id: str, message: ReportMember
    ) -> ReportMemberReply: ...

    def close(self) -> None: ...


class Reporter:
    """Sends what `told` returns, the member's id and facts, about once a second. `is_draining` says what an operator
    wants of this query. `told` is called in the reporter's thread.
    """

    def __init__(
        self, options: Options, told: Callable[[], tuple[str, Facts]], connect: Callable[[], Coordinators] | None = None
    ) -> None:
        self.is_draining = False
        self._options = options
        self._told = told
        self._connect = connect or self._cluster_client
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="muster-reporter", daemon=True)

    def start(self) -> None:
        """Begin, unless the bootstrap is a listener of Kafka's protocol, which takes no reports."""
        if not self._options.bootstrap.startswith("kafka://"):
            self._thread.start()

    def stop(self) -> None:
        """Have the thread end; a report under way is not waited for."""
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
        """Send one report; return false if the coordinator takes none. What fails is tried again by the next."""
        member_id, facts = self._told()
        if not member_id:
            return True
        told = tuple(ReportedFact(name, text[:LONGEST_FACT]) for name, text in facts.items())
        group = self._options.group
        try:
            reply = cluster.ask_coordinator(ReportMemberReply, group, ReportMember(group, member_id, told))
        except MusterError as error:
            return getattr(error, "error_code", None) != ErrorCode.UNSUPPORTED_VERSION
        if not reply.error_code:
            self.is_draining = self.is_draining or reply.is_draining
        return True
