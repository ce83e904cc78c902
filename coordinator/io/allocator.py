"""EDGE: settings of the C library's allocator."""

import contextlib
import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 32 * 1024 * 1024


def keep_large_buffers() -> None:
    """Let the allocator keep freed buffers of up to 32 MiB for the next request.

    By default glibc returns buffers of a megabyte to the system, which zeroes their pages when they are allocated
    again. That cost more than the rest of such a request. Allocators without mallopt(3) are not changed.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
