"""Settings of a client-balanced consumer."""

import msgspec

from protocol.messages.balanced import CLIENT_MODE, SERVER_MODE

_POSITIONS = ("first", "latest", "always_max")
MIN_META_CHECK_PERIOD_MS = 5_000


class BalancedConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Raises ValueError for settings that cannot work. Times are milliseconds; defaults are those of
    docs/spec/client-balanced-groups.md#5 and #11. In TubeMQ's words:

    `meta_check_period_ms` partMetaInfoCheckPeriodMs, at least 5,000; `ready_check_slice_ms` and `ready_wait_ms`
    pullConsumeReadyChkSliceMs and pullConsumeReadyWaitPeriodMs (negative: for ever, 0: one slice); `not_found_wait_ms`
    msgNotFoundWaitPeriodMs; `confirm_wait_ms` pullRebConfirmWaitPeriodMs; `confirm_in_local` pullConfirmInLocal.

    `mode` "client": this program connects partitions; "server": the coordinator assigns them, about every 30 s.
    `consume_position` is "first", "latest" or "always_max": where a key without a stored offset begins.
    `instance_id` is the operator's promise that no other process of that name runs: a restarted one takes over at once.
    With `rolls_back_unconfirmed` a batch that was never confirmed is delivered again to whoever comes next.
    `fetch_wait_ms`: how long the coordinator may hold a fetch back that finds nothing, where no other partition could
    be read meanwhile; records then come as soon as they are written.
    """

    mode: str = "client"
    session_timeout_ms: int = 30_000
    heartbeat_interval_ms: int = 10_000
    full_report_every: int = 60
    consume_position: str = "latest"
    instance_id: str | None = None
    meta_check_period_ms: int = 10_000
    ready_check_slice_ms: int = 5
    ready_wait_ms: int = 90_000
    not_found_wait_ms: int = 400
    confirm_wait_ms: int = 3_000
    confirm_in_local: bool = False
    rolls_back_unconfirmed: bool = True
    start_tries: int = 5
    connect_tries: int = 2
    retry_pause_ms: int = 1_000
    refused_pause_ms: int = 5_000
    closing_pause_ms: int = 200
    request_timeout_ms: int = 10_000
    fetch_max_bytes: int = 1_048_576
    fetch_wait_ms: int = 0

    def __post_init__(self) -> None:
        if self.mode not in (CLIENT_MODE, SERVER_MODE):
            raise ValueError(f"mode is {self.mode!r}, it must be {CLIENT_MODE!r} or {SERVER_MODE!r}")
        if self.consume_position not in _POSITIONS:
            known = ", ".join(repr(one) for one in _POSITIONS)
            raise ValueError(f"consume_position is {self.consume_position!r}, it must be one of {known}")
        if not 0 <= self.ready_check_slice_ms <= 1_000:
            raise ValueError(f"ready_check_slice_ms is {self.ready_check_slice_ms}, it must be from 0 to 1,000")
        if not 0 < self.heartbeat_interval_ms * 3 <= self.session_timeout_ms:
            raise ValueError(
                f"heartbeat_interval_ms is {self.heartbeat_interval_ms}, it must be above 0 and at most a third of "
                f"session_timeout_ms, which is {self.session_timeout_ms}"
            )
        for name in ("start_tries", "connect_tries", "full_report_every", "request_timeout_ms", "fetch_max_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, it must be 1 or more")
        for name in ("not_found_wait_ms", "confirm_wait_ms", "retry_pause_ms", "closing_pause_ms", "fetch_wait_ms"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}, it must be 0 or more")

    @property
    def meta_period_ms(self) -> int:
        return max(self.meta_check_period_ms, MIN_META_CHECK_PERIOD_MS)
