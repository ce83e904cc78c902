"""EDGE: a flush of the write-ahead log by Linux's io_uring(7).

The loop submits one write that completes when its bytes are durable (`RWF_DSYNC`). The kernel passes it to one of its
workers at once (`IOSQE_ASYNC`), so the loop never waits for the file system, and signals completion by an eventfd. No
thread of this process takes the interpreter's lock for it: that was a quarter of the cost of a commit.
"""

import asyncio
import ctypes
import errno
import mmap
import os
import sys
from collections.abc import Callable
from struct import Struct
from typing import Final

from partition_log.wal.wal_segment import BlockWrite

_SETUP, _ENTER, _REGISTER = 425, 426, 427
"""System calls, for which the C library has no functions; their numbers are the same on every architecture."""
_PARAMS: Final = Struct("<7I3I10I10I")
"""`struct io_uring_params`: entries of both rings, flags, ..., features at 5, ...; the rings' offsets follow."""
_FEATURES, _SQ_OFFSETS, _CQ_OFFSETS = 5, 10, 20
_SINGLE_MMAP, _RW_CUR_POS = 1 << 0, 1 << 3
"""Features: both rings in one mapping; a kernel that has `IORING_OP_WRITE`: Linux of 2020."""
_HEAD, _TAIL, _ARRAY, _CQES = 0, 1, 6, 5
_RING_AT, _ENTRIES_AT = 0, 0x10000000
_SQE: Final = Struct("<BBHiQQIIQQQQ")
"""`struct io_uring_sqe`: opcode, flags, priority, file, offset, address, length, rw_flags, user data, ..."""
_CQE: Final = Struct("<QiI")
"""`struct io_uring_cqe`: user data, result, flags."""
_U32: Final = Struct("<I")
_WRITE, _ASYNC, _DSYNC = 23, 1 << 4, 0x2
_REGISTER_EVENTFD = 4

Ended = Callable[[OSError | None], None]


class KernelFlush:
    """Makes one block at a time durable. Raises OSError if io_uring is unavailable: containers often forbid it, and
    only Linux has it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        if sys.platform != "linux" or sys.maxsize <= 1 << 32:
            raise OSError(errno.ENOSYS, "io_uring is known on 64-bit Linux alone")
        # `PyDLL` keeps the interpreter's lock: the calls are short, and releasing it costs more than they do.
        self._call = ctypes.PyDLL(None, use_errno=True).syscall
        params = ctypes.create_string_buffer(_PARAMS.size)
        self._ring = self._checked(self._call(_SETUP, 1, params))
        try:
            self._map(_PARAMS.unpack(params.raw))
            self._told = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        except OSError:
            os.close(self._ring)
            raise
        told = ctypes.c_int(self._told)
        self._checked(self._call(_REGISTER, self._ring, _REGISTER_EVENTFD, ctypes.byref(told), 1))
        self._write: BlockWrite | None = None
        self._ended: Ended | None = None
        self._count = 0
        self._loop = loop
        loop.add_reader(self._told, self._completed)

    def _map(self, params: tuple[int, ...]) -> None:
        if params[_FEATURES] & (_SINGLE_MMAP | _RW_CUR_POS) != _SINGLE_MMAP | _RW_CUR_POS:
            raise OSError(errno.ENOSYS, "the kernel's io_uring has no IORING_OP_WRITE")
        sq, cq = params[_SQ_OFFSETS : _SQ_OFFSETS + 10], params[_CQ_OFFSETS : _CQ_OFFSETS + 10]
        entries, completions = params[0], params[1]
        size = max(sq[_ARRAY] + entries * _U32.size, cq[_CQES] + completions * _CQE.size)
        self._rings = mmap.mmap(self._ring, size, mmap.MAP_SHARED | mmap.MAP_POPULATE, offset=_RING_AT)
        self._entries = mmap.mmap(self._ring, entries * _SQE.size, mmap.MAP_SHARED, offset=_ENTRIES_AT)
        self._tail_at, self._done_at, self._cqes_at = sq[_TAIL], cq[_HEAD], cq[_CQES]
        self._done_mask = completions - 1
        _U32.pack_into(self._rings, sq[_ARRAY], 0)  # the only entry is always the next one

    def begin(self, write: BlockWrite, ended: Ended) -> None:
        """Submit the write and return. The loop calls `ended` when the write is durable, or with the error if it may
        not be. Raises OSError if it cannot be submitted. One at a time."""
        assert self._write is None, "a flush is under way"
        self._write, self._ended = write, ended  # the kernel reads the bytes until it is done
        data = ctypes.cast(ctypes.c_char_p(write.data), ctypes.c_void_p).value
        _SQE.pack_into(
            self._entries, 0,
            _WRITE, _ASYNC, 0, write.handle, write.position, data, len(write.data), _DSYNC, 0, 0, 0, 0,
        )  # fmt: skip
        self._count += 1
        _U32.pack_into(self._rings, self._tail_at, self._count & 0xFFFFFFFF)
        if self._checked(self._call(_ENTER, self._ring, 1, 0, 0, None, 0)) != 1:
            raise OSError(errno.EBUSY, "the kernel took no write")

    def _completed(self) -> None:
        os.eventfd_read(self._told)
        (done,) = _U32.unpack_from(self._rings, self._done_at)
        _number, result, _flags = _CQE.unpack_from(self._rings, self._cqes_at + (done & self._done_mask) * _CQE.size)
        _U32.pack_into(self._rings, self._done_at, done + 1 & 0xFFFFFFFF)
        write, ended = self._write, self._ended
        self._write = self._ended = None
        assert write is not None and ended is not None
        if result < 0:
            ended(OSError(-result, os.strerror(-result)))
        elif result != len(write.data):
            ended(OSError(errno.EIO, f"{result} of {len(write.data)} bytes were written"))
        else:
            ended(None)

    def close(self) -> None:
        """Release the ring. No flush may be under way."""
        self._loop.remove_reader(self._told)
        self._entries.close()
        self._rings.close()
        os.close(self._told)
        os.close(self._ring)

    @staticmethod
    def _checked(result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result


def kernel_flush(loop: asyncio.AbstractEventLoop) -> KernelFlush | None:
    """Return the kernel's flush; None if io_uring is unavailable, so that a thread must write and sync."""
    try:
        return KernelFlush(loop)
    except OSError:
        return None
