"""The recommended loop of a client-balanced group, in a separate thread (docs/spec/client-balanced-groups.md#10)."""

import logging
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from muster.blocking.balanced import ClientBalancedConsumer
from muster.core.balancing.loop import Round, Shortfall, rebalance_once, shortfall
from muster.core.balancing.shares import Share, hash_mod

_LOG = logging.getLogger("muster.balanced")


class BalancedLoop:
    """Every `period_s` (that of the consumer's metadata) gives up what is not its consumer's share and connects what is
    missing of it, until `stop`, or the consumer is shut down. `saved` gives the offsets to begin at, where the
    application keeps its own; all nodes must use the same `share`. What `share` or `on_round` raises is logged, and the
    next round comes all the same.

    Nobody takes the share of a missing node over. When a number of `source_count` has no member, that is logged once
    as a warning of "muster.balanced", with the partitions that nobody reads, and again when it has changed; `shortfall`
    says how it is.
    """

    def __init__(
        self,
        consumer: ClientBalancedConsumer,
        share: Share = hash_mod,
        *,
        saved: Mapping[str, int] | None = None,
        period_s: float | None = None,
        on_round: Callable[[Round], object] = lambda _round: None,
    ) -> None:
        self._consumer = consumer
        self._share = share
        self._saved = saved
        self._period_s = consumer.config().meta_period_ms / 1000 if period_s is None else period_s
        self._on_round = on_round
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None
        self.shortfall = Shortfall()

    def start(self) -> Self:
        """Start the loop in a thread; the consumer must be started."""
        if self._thread is None:
            self._thread = threading.Thread(target=self.run, name="muster-loop", daemon=True)
            self._thread.start()
        return self

    def stop(self) -> None:
        """Stop after the present round."""
        self._is_over.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def run(self) -> None:
        """Run rounds in this thread."""
        while not self._is_over.is_set():
            try:
                if self._round().is_last:
                    return
            except Exception:  # noqa: BLE001  (the application's share function, or what it does with a round)
                _LOG.exception("a round of sharing out failed; the next one comes in %g s", self._period_s)
            self._is_over.wait(self._period_s)

    def _round(self) -> Round:
        done = rebalance_once(self._consumer, self._share, self._saved)
        self._on_round(done)
        if done.trouble is not None and not done.is_last:
            _LOG.warning("the shares cannot be computed: %s (%d)", done.trouble.msg, done.trouble.code)
        if not done.is_last:
            self._check_other_nodes()
        return done

    def _check_other_nodes(self) -> None:
        source_count = self._consumer.source_count()
        if source_count is None or not (said := self._consumer.describe_group()).ok:
            return
        found = shortfall(said.data, source_count, self._share)
        if found != self.shortfall:
            self.shortfall = found
            if found.missing_nodes:
                unread = ", ".join(found.unread) or "none that can be read"
                _LOG.warning("no member is node %s of %d; not read: %s", _listed(found), source_count, unread)
            else:
                _LOG.info("all %d nodes have a member", source_count)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _listed(found: Shortfall) -> str:
    return ", ".join(map(str, found.missing_nodes))
