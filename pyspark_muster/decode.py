"""Record batches to Arrow: a few numpy steps for many records at a time, without a Python object for each record.

Only the positions of records must be found one after the other, since each record has the length to the next one: in
many small batches together, the second records of all batches after the first ones, and so on; in others those that
are equally long all at once. All other fields, varints included, are decoded as columns. Keys and values are not copied
one by one either: an Arrow array is laid over the received bytes, with values in its even slots and the bytes between
them in the odd ones; then the even slots are selected.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from protocol.record_batch import HEADER_BYTES, BatchHeader, Bytes, CorruptBatch, record_bytes

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
)
"""Names and types of Spark's own Kafka source."""
_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
WITH_HEADERS = SCHEMA.append(pa.field("headers", pa.list_(pa.field("element", _HEADER))))

ROWS = 32_768
BYTES = 16 * 1024 * 1024
"""Largest numbers of rows and bytes of an Arrow batch; large, since Spark processes a few large batches much faster
than many small ones."""

TOGETHER = 100
"""Batches from which on the positions of records are found in all of them together, if all are equally long."""
LEAST_RUN, _LONGEST_STRETCH = 64, 1024
"""Equally long records that are worth the fixed costs of numpy, and the most records found singly in between."""
_LENGTH_BYTES = 5
"""Bytes of the longest varint of 32 bits."""

_LOG_APPEND_TIME = 0x08

Numbers = npt.NDArray[np.int64]


def decode_range(
    batches: Iterable[tuple[BatchHeader, Bytes]],
    topic: str,
    partition: int,
    start: int,
    end: int,
    *,
    with_headers: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Decode the records of whole batches that lie in `[start, end)`. The reader that fetched the batches has verified
    their checksums. Raises `CorruptBatch`.
    """
    gathered: list[tuple[BatchHeader, Bytes]] = []
    rows = size = 0
    for header, batch in batches:
        # Uncompressed payloads are copied once, when they are joined.
        payload = record_bytes(header, batch) if header.compression else memoryview(batch)[HEADER_BYTES : header.size]
        gathered.append((header, payload))
        rows += header.record_count
        size += len(payload)
        if rows >= ROWS or size >= BYTES:
            yield from _nonempty(decode(gathered, topic, partition, start, end, with_headers=with_headers))
            gathered, rows, size = [], 0, 0
    if gathered:
        yield from _nonempty(decode(gathered, topic, partition, start, end, with_headers=with_headers))


def _nonempty(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.num_rows:
        yield batch


def decode(
    batches: Sequence[tuple[BatchHeader, Bytes]],
    topic: str,
    partition: int,
    start: int,
    end: int,
    *,
    with_headers: bool = False,
) -> pa.RecordBatch:
    """Return one Arrow batch, of `SCHEMA` or `WITH_HEADERS`, with all records of these batches that lie in
    `[start, end)`.
    """
    buffer = b"".join(payload for _, payload in batches)
    data = np.frombuffer(buffer, np.uint8)
    counts = [header.record_count for header, _ in batches]
    try:
        at = _bodies(buffer, data, batches, counts)
        timestamp_deltas, at = _varints(data, at + 1)  # after the record's attributes, which Kafka does not use
        offset_deltas, at = _varints(data, at)
        offsets = offset_deltas + np.repeat([header.base_offset for header, _ in batches], counts)
        timestamps = timestamp_deltas + np.repeat([header.base_timestamp_ms for header, _ in batches], counts)
        by_log = np.repeat([bool(header.attributes & _LOG_APPEND_TIME) for header, _ in batches], counts)
        if by_log.any():
            appended = np.repeat([header.max_timestamp_ms for header, _ in batches], counts)
            timestamps = np.where(by_log, appended, timestamps)
        wanted = (offsets >= start) & (offsets < end)
        if not wanted.all():
            offsets, timestamps, at, by_log = offsets[wanted], timestamps[wanted], at[wanted], by_log[wanted]
        keys, at = _field(buffer, data, at)
        values, at = _field(buffer, data, at)
        headers = [_headers(buffer, data, at)] if with_headers else []
    except IndexError as error:
        raise CorruptBatch(0, f"{topic}-{partition}: its records are no records: {error}") from None
    rows = len(offsets)
    return pa.RecordBatch.from_arrays(
        [
            keys,
            values,
            pa.repeat(pa.scalar(topic, pa.string()), rows),
            pa.array(np.full(rows, partition, np.int32)),
            pa.array(offsets),
            pa.array(timestamps * 1000).view(pa.timestamp("us", tz="UTC")),
            pa.array(by_log.astype(np.int32)),
            *headers,
        ],
        schema=WITH_HEADERS if with_headers else SCHEMA,
    )


def _bodies(
    buffer: bytes, data: npt.NDArray[np.uint8], batches: Sequence[tuple[BatchHeader, Bytes]], counts: Sequence[int]
) -> Numbers:
    """Return the position of each record, after its length field. `buffer` and `data`: all payloads, joined. Raises
    IndexError if a batch's records do not end where it ends.
    """
    total = sum(counts)
    if total > len(buffer):
        raise IndexError(f"{total} records in {len(buffer)} bytes")
    if total > TOGETHER * max(counts):
        return _bodies_together(data, batches, counts)
    return _bodies_in_order(buffer, data, batches)


def _bodies_together(
    data: npt.NDArray[np.uint8], batches: Sequence[tuple[BatchHeader, Bytes]], counts: Sequence[int]
) -> Numbers:
    """Find the first records of all batches, then their second ones, and so on: fast if there are many batches."""
    ends = np.cumsum([len(payload) for _, payload in batches])
    at = np.append(0, ends[:-1])
    of_batch = np.array(counts)
    first = np.cumsum(of_batch) - of_batch  # row of each batch's first record
    longest_first = np.argsort(-of_batch, kind="stable")
    at, first, ends = at[longest_first], first[longest_first], ends[longest_first]
    longer = len(counts) - np.searchsorted(np.sort(of_batch), np.arange(of_batch.max()), side="right")
    bodies = np.empty(of_batch.sum(), np.int64)
    for number, left in enumerate(longer.tolist()):  # batches that have a record of this number
        lengths, body = _varints(data, at[:left])
        if lengths.min() < 0 or lengths.max() > len(data):
            raise IndexError("a record of negative length, or beyond its batch")
        bodies[first[:left] + number] = body
        at[:left] = body + lengths
    if (at != ends).any():
        wrong = longest_first[np.flatnonzero(at != ends)[0]]
        raise IndexError(f"batch at {batches[wrong][0].base_offset}: its records do not end where it ends")
    return bodies


def _bodies_in_order(
    buffer: bytes, data: npt.NDArray[np.uint8], batches: Sequence[tuple[BatchHeader, Bytes]]
) -> Numbers:
    """Find one record after the other, and runs of equally long ones at once."""
    found: list[Numbers] = []
    single: list[int] = []
    at = end = 0
    stretch = 1  # records found singly before a run is looked for; twice as many after each run that was too short
    for header, payload in batches:
        end += len(payload)
        left = header.record_count
        while left > 0:
            some, start, at = _one_by_one(buffer, at, min(stretch, left) if left > LEAST_RUN else left)
            single += some
            left -= len(some)
            if left < LEAST_RUN:
                continue
            size, run = at - start, _equally_long(data, start, some[-1], at, left)
            if run >= LEAST_RUN:
                found += np.array(single, np.int64), some[-1] + size * np.arange(1, run + 1)
                single, stretch = [], 1
            else:
                single += range(some[-1] + size, some[-1] + size * (run + 1), size)
                stretch = min(2 * stretch, _LONGEST_STRETCH)
            at += run * size
            left -= run
        if at != end:
            raise IndexError(f"batch at {header.base_offset}: its records do not end where it ends")
    return np.concatenate((*found, np.array(single, np.int64)))


def _one_by_one(buffer: bytes, at: int, count: int) -> tuple[list[int], int, int]:
    """Return the positions of so many records after their length fields, where the last one starts, and where it
    ends."""
    bodies: list[int] = []
    start = at
    for _ in range(count):
        start = at
        low = buffer[at]
        if low < 0x80:
            at += 1
            length = low
        else:
            high = buffer[at + 1]
            if high < 0x80:
                at += 2
                length = (low & 0x7F) | high << 7
            else:
                length, at = _long_varint(buffer, at)
        if length & 1:
            raise IndexError("a record of negative length")
        bodies.append(at)
        at += length >> 1
    return bodies, start, at


def _equally_long(data: npt.NDArray[np.uint8], start: int, body: int, end: int, most: int) -> int:
    """Return how many records after the one at [start, end) are as long, at most `most`."""
    size = end - start
    most = min(most, (len(data) - end) // size)
    run, window = 0, LEAST_RUN
    while run < most:
        window = min(4 * window, most - run)  # little is compared in vain after a short run
        records = data[end + run * size : end + (run + window) * size].reshape(window, size)
        is_other = records[:, 0] != data[start]
        for byte in range(1, body - start):  # of the length
            is_other |= records[:, byte] != data[start + byte]
        if is_other.any():
            return run + int(is_other.argmax())
        run += window
    return run


def _long_varint(payload: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 7 * _LENGTH_BYTES, 7):
        byte = payload[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise IndexError(f"a length of more than {_LENGTH_BYTES} bytes")


def _varints(data: npt.NDArray[np.uint8], at: Numbers) -> tuple[Numbers, Numbers]:
    """Decode the zigzag number at each position; return the numbers and the positions after them."""
    bytes_here = data[at]
    numbers = (bytes_here & 0x7F).astype(np.int64)
    after = at + 1
    unfinished = np.flatnonzero(bytes_here >= 0x80)
    shift = 7
    while unfinished.size:
        if shift > 63:
            raise IndexError("a number of more than ten bytes")
        more = data[after[unfinished]]
        numbers[unfinished] |= (more & 0x7F).astype(np.int64) << shift
        after[unfinished] += 1
        unfinished = unfinished[more >= 0x80]
        shift += 7
    return ((numbers >> 1) & 0x7FFF_FFFF_FFFF_FFFF) ^ -(numbers & 1), after


def _field(buffer: bytes, data: npt.NDArray[np.uint8], at: Numbers) -> tuple[pa.Array, Numbers]:
    """Return the keys or values at these positions, null if their length is negative, and the positions after them."""
    lengths, starts = _varints(data, at)
    is_null = lengths < 0
    ends = starts + np.where(is_null, 0, lengths)
    rows = len(starts)
    if not rows or is_null.all():
        return pa.nulls(rows, pa.binary()), ends
    # Arrow does not check its offsets: they must lie in the buffer, in ascending order.
    bounds = np.empty(2 * rows, np.int64)
    bounds[0::2], bounds[1::2] = starts, ends
    if bounds[-1] > len(buffer) or (bounds[1:] < bounds[:-1]).any():
        raise IndexError("a field reaches beyond its record")
    spans = pa.Array.from_buffers(
        pa.binary(), 2 * rows - 1, [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(buffer)]
    )
    return spans.take(pa.array(np.arange(0, 2 * rows, 2), mask=is_null if is_null.any() else None)), ends


def _headers(buffer: bytes, data: npt.NDArray[np.uint8], at: Numbers) -> pa.Array:
    """Return the lists of headers whose counts are at these positions, null for records without. The first headers of
    all records are decoded together, then the second ones, and so on.
    """
    counts, at = _varints(data, at)
    if (counts < 0).any():
        raise IndexError("a negative number of headers")
    rows = np.flatnonzero(counts)
    of_row: list[Numbers] = []
    keys: list[pa.Array] = []
    values: list[pa.Array] = []
    number = 0
    while rows.size:
        key, at[rows] = _field(buffer, data, at[rows])
        value, at[rows] = _field(buffer, data, at[rows])
        of_row.append(rows)
        keys.append(key.view(pa.string()))
        values.append(value)
        number += 1
        rows = rows[counts[rows] > number]
    ends = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    # A null offset makes a null list; the list before it ends at the next offset that is not null.
    offsets = pa.array(ends, mask=np.append(counts == 0, False))
    if not keys:
        return pa.nulls(len(counts), WITH_HEADERS.field("headers").type)
    order = pa.array(np.argsort(np.concatenate(of_row), kind="stable"))
    flat = pa.StructArray.from_arrays(
        [pa.concat_arrays(keys).take(order), pa.concat_arrays(values).take(order)], fields=list(_HEADER)
    )
    return pa.ListArray.from_arrays(offsets, flat, type=WITH_HEADERS.field("headers").type)
