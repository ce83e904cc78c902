"""The pause before a retry (docs/spec/consumer-client.md#A1)."""


def backoff_ms(base_ms: int, most_ms: int, failures: int, jitter: float) -> int:
    """Return min(most, base * 2^failures * U(0.8, 1.2)); `jitter` is a number in [0, 1)."""
    return min(most_ms, int(base_ms * 2 ** min(failures, 30) * (0.8 + 0.4 * jitter)))
