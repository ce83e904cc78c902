"""EDGE: the C library's allocator, told what this process is like."""

import contextlib
import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 32 * 1024 * 1024


def keep_large_buffers() -> None:
    """Let the allocator keep what a request of a megabyte took, up to 32 MiB, for the next one. Given back to the
    system each time, as glibc does by itself, it is zeroed page by page when it is taken again: that cost more than all
    the rest of such a request. Other allocators are left as they are."""
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
