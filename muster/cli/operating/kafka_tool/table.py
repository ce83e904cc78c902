"""Tables of `muster-consumer-groups`, with the columns' widths of Kafka's tool."""

from collections.abc import Sequence


def print_table(columns: Sequence[str], widths: Sequence[int], rows: Sequence[Sequence[str]]) -> None:
    """Print columns of at least these widths, after a blank line; longer identifiers widen their columns."""
    found = [max([width, *(len(row[number]) for row in rows)]) if width else 0 for number, width in enumerate(widths)]
    print()
    for row in (columns, *rows):
        print(" ".join(f"{cell:<{width}}" for cell, width in zip(row, found, strict=True)))
