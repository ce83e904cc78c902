"""Small nodes on a simulated disk, and what must hold in a story with crashes."""

from partition_log.cleanup_policy import Retain
from partition_log.disk.disk import Disk
from partition_log.store.log_store import Appended, LogStore, PartitionLog, StoreLimits
from protocol.record_batch import batches, encode_batch

LIMITS = StoreLimits(wal_segment_bytes=4096, checkpoint_bytes=6000, max_batch_bytes=3000, spill_bytes=600)
SMALL = Retain(segment_bytes=1500)


def mount(disk: Disk, limits: StoreLimits = LIMITS, folder: str = "data") -> LogStore:
    store = LogStore(disk, folder, limits)
    store.open()
    return store


def batch(text: str, timestamp_ms: int = 1000) -> bytes:
    return encode_batch([(b"key", text.encode())], timestamp_ms=timestamp_ms)


def append(store: LogStore, name: str, text: str) -> Appended:
    appended = store.append(store.log(name, SMALL), batch(text))
    assert isinstance(appended, Appended)
    return appended


def flush(store: LogStore, disk: Disk) -> list[PartitionLog]:
    job = store.begin_flush()
    if job is None:
        return []
    job.run(disk)
    return store.finish_flush(job.up_to)


def work(store: LogStore, disk: Disk, *, force: bool = False) -> bool:
    """Run one checkpoint job, if one is due."""
    job = store.begin_checkpoint(force=force)
    if job is None:
        return False
    job.run(disk)
    store.finish_checkpoint(job)
    return True


def contents(log: PartitionLog) -> bytes:
    """Return the content, read by both readers, which must agree."""
    replayed = b"".join(bytes(view) for _header, view in log.batches_from(log.start_offset))
    read = b""
    offset = log.start_offset
    while data := log.read(offset, 700):
        read += data
        offset = _end(data)
    assert read == replayed
    return read


def _end(data: bytes) -> int:
    return max(header.next_offset for header, _view in batches(data))


def everything(store: LogStore) -> dict[str, bytes]:
    return {name: contents(store.log(name)) for name in store.names()}
