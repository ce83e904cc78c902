"""Tolerates servers that do not answer, for as long as a query allows. Reads no clock."""

from muster import CannotConnect, MusterError, Refused, RequestTimedOut


class OutageTooLong(Exception):
    """Raised if no server has answered for longer than the query allows; the message has the last failure."""


def is_outage(error: Exception) -> bool:
    """Return true if the same request may succeed later without a change of the query."""
    if isinstance(error, Refused):
        return error.error_code.retriable
    return isinstance(error, CannotConnect | RequestTimedOut)


class Outage:
    """The time since the first failure after the last success."""

    def __init__(self, *, first_contact_ms: int, timeout_ms: int) -> None:
        """`first_contact_ms` is the limit until a server was reached once; shorter, since the address may be
        misspelt."""
        self._first_contact_ms = first_contact_ms
        self._timeout_ms = timeout_ms
        self._since_s: float | None = None
        self._was_reached = False
        self._sentence = ""

    def failed(self, error: MusterError, now_s: float) -> None:
        """Note a failure. Raises `OutageTooLong`."""
        since_s = self._since_s = now_s if self._since_s is None else self._since_s
        self._sentence = str(error)
        limit_ms = self._timeout_ms if self._was_reached else min(self._first_contact_ms, self._timeout_ms)
        if (now_s - since_s) * 1000 > limit_ms:
            name = "outageTimeoutMs" if limit_ms == self._timeout_ms else "assignmentTimeoutMs, before the first answer"
            raise OutageTooLong(f"no answer for {now_s - since_s:.0f} s ({name}): {error}") from error

    def reached(self) -> None:
        """Note that servers have answered before."""
        self._was_reached = True

    def over(self) -> None:
        """Note a success."""
        self.reached()
        self._since_s = None

    def describe(self, now_s: float) -> str:
        """Return a sentence for the query's progress; empty without an outage."""
        if self._since_s is None:
            return ""
        return f"no answer for {now_s - self._since_s:.0f} s: {self._sentence}"
