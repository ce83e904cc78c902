"""Compiles schemas to writers: for each version a function without a branch on the version, straight-line code as in
`reading`. Fields that the version does not have are omitted.
"""

from collections.abc import Callable, Generator
from functools import cache
from struct import Struct
from typing import Any, Final

from protocol.kafka.fields import Field, FieldGroup, Fixed, Inline, Many, Maybe, Nested, Schema, Sized
from protocol.kafka.source import Source, default, present
from protocol.kafka.varint import write_tags, write_uvarint

Writer = Callable[[Any], bytes]
"""Function from a message to its body."""

_PIECES_A_PAUSE: Final = 4_000
"""Pieces encoded between two pauses, in a millisecond or less."""
_SHORT: Final = tuple(bytes((value,)) for value in range(128))


def _write_many(items: tuple[Any, ...], code: str) -> bytes:
    return Struct(f">{len(items)}{code}").pack(*items)


class _WriterSource(Source):
    """Source of a writer. `_run`: codes and expressions of fixed-width values not yet written. The writer yields after
    `pauses_after` pieces; 0: never."""

    def __init__(self, version: int, is_flexible: bool, pauses_after: int = 0) -> None:
        super().__init__()
        self.pauses_after = pauses_after
        self.version = version
        self.is_flexible = is_flexible
        self._run: list[tuple[str, str]] = []
        self.names.update(short=_SHORT, uvarint=write_uvarint, write_many=_write_many, write_tags=write_tags)

    def flush(self) -> None:
        if not self._run:
            return
        code = Struct(">" + "".join(code for code, _ in self._run))
        values = ", ".join(value for _, value in self._run)
        self.line(f"out({self.keep(code.pack, 'pack')}({values}))")
        self._run.clear()

    def length(self, expression: str, code: str) -> None:
        if self.is_flexible:
            self.flush()
            self.line(f"n = {expression} + 1")
            self.line("out(short[n] if n < 128 else uvarint(n))")
        else:
            self._run.append((code, expression))
            self.flush()

    def null(self, code: str) -> None:
        if self.is_flexible:
            self.line(r"out(b'\0')")
        else:
            self.line(f"out({Struct('>' + code).pack(-1)!r})")

    def sized(self, value: str, kind: Sized, *, nullable: bool) -> None:
        name = self.new()
        self.line(f"{name} = {value}")
        encoded = f"{name}.encode()" if kind.is_text else name
        empty = "''" if kind.is_text else "b''"
        if nullable:
            # Both branches write the fixed-width values before this field together with its length.
            before = self._run.copy()
            self.line(f"if {name}:")
            self.depth += 1
            self._bytes(name, encoded, kind)
            self.depth -= 1
            self.line("else:")
            self.depth += 1
            self._run = before
            self.length(f"(-1 if {name} is None else 0)", kind.length_code)
            self.depth -= 1
        else:
            # Older versions have no null: they write an empty value.
            self.line(f"if {name} is None:")
            self.line(f"    {name} = {empty}")
            self._bytes(name, encoded, kind)

    def _bytes(self, name: str, encoded: str, kind: Sized) -> None:
        if kind.is_text:
            self.line(f"{name} = {encoded}")
        self.length(f"len({name})", kind.length_code)
        self.line(f"out({name})")

    def many(self, value: str, kind: Many, *, nullable: bool) -> None:
        name = self.new("items")
        self.line(f"{name} = {value}")
        if nullable:
            self.flush()
            self.line(f"if {name} is None:")
            self.depth += 1
            self.null("i")
            self.depth -= 1
            self.line("else:")
            self.depth += 1
        else:
            self.line(f"if {name} is None:")
            self.line(f"    {name} = ()")
        self.length(f"len({name})", "i")
        if isinstance(kind.item, Fixed) and len(kind.item.code) == 1:
            self.line(f"out(write_many({name}, '{kind.item.code}'))")
        else:
            item = self.new("item")
            self.line(f"for {item} in {name}:")
            self.depth += 1
            if isinstance(kind.item, FieldGroup):
                self.group(kind.item, item, with_tags=not kind.bare)
            elif isinstance(kind.item, Fixed):
                self._run.append((kind.item.code, item))
            else:
                self.sized(item, kind.item, nullable=False)
            self.flush()
            if self.lines[-1].endswith(f"for {item} in {name}:"):
                self.line("pass")
            if self.pauses_after:
                self.line(f"if len(parts) > {self.pauses_after}:")
                self.line("    whole.append(b''.join(parts))")
                self.line("    parts.clear()")
                self.line("    yield")
            self.depth -= 1
        if nullable:
            self.depth -= 1

    def maybe(self, value: str, kind: Maybe) -> None:
        name = self.new()
        self.flush()
        self.line(f"{name} = {value}")
        self.line(f"if {name} is None:")
        self.line(r"    out(b'\xff')")
        self.line("else:")
        self.depth += 1
        self.line(r"out(b'\x01')")
        self.group(kind.group, name, with_tags=True)
        self.flush()
        self.depth -= 1

    def row(self, row: Field, value: str) -> None:
        nullable = self.version >= row.nullable
        if row.write_as:
            value = f"({row.write_as.format(value)})"
        if isinstance(row.type, Many):
            self.many(value, row.type, nullable=nullable)
        elif isinstance(row.type, Inline):
            name = self.new()
            self.line(f"{name} = {value}[0]")
            self.group(row.type.group, name, with_tags=False)
        elif isinstance(row.type, Maybe):
            self.maybe(value, row.type)
        elif isinstance(row.type, Nested):
            name = self.new()
            self.line(f"{name} = {value}")
            self.group(row.type.group, name, with_tags=True)
        elif isinstance(row.type, Fixed):
            self._run.append((row.type.code, value))
        else:
            self.sized(value, row.type, nullable=nullable)

    def group(self, group: FieldGroup, value: str, *, with_tags: bool) -> None:
        rows = present(group, self.version)
        for row in rows:
            if row.tag is None:
                self.row(row, f"{value}.{row.name}" if row.name else repr(row.default))
        if not (with_tags and self.is_flexible):
            return
        tagged = [row for row in rows if row.tag is not None]
        self.flush()
        if not tagged:
            self.line(r"out(b'\0')")
            return
        tags = self.new("tags")
        self.line(f"{tags} = []")
        for row in sorted(tagged, key=lambda row: row.tag or 0):
            source = _WriterSource(self.version, True)
            source.row(row, "message")
            write = self.keep(_finish_writer(source, f"tag {row.name}"))
            usual = self.keep(default(group, row.name))
            self.line(f"if {value}.{row.name} != {usual}:")
            self.line(f"    {tags}.append(({row.tag}, {write}({value}.{row.name})))")
        self.line(f"out(write_tags({tags}))")


def _finish_writer(source: _WriterSource, about: str, result: str = "b''.join(parts)") -> Any:
    source.flush()
    source.lines[:0] = ["    parts = []", "    out = parts.append"]
    source.line(f"return {result}")
    return source.build("write(message)", about)


@cache
def pieces_writer(schema: Schema, version: int) -> Callable[[Any], list[bytes]]:
    """Return a writer of bodies in pieces, for messages so large that their pieces should be joined only once."""
    source = _WriterSource(version, version >= schema.flexible)
    source.group(schema.group, "message", with_tags=True)
    write: Callable[[Any], list[bytes]] = _finish_writer(source, f"{schema.name} v{version}", "parts")
    return write


@cache
def pausing_writer(schema: Schema, version: int) -> Callable[[Any], Generator[None, None, bytes]]:
    """Return a writer of very large bodies, which yields repeatedly so that other requests need not wait for the
    whole."""
    source = _WriterSource(version, version >= schema.flexible, _PIECES_A_PAUSE)
    source.group(schema.group, "message", with_tags=True)
    source.lines.insert(0, "    whole = []")
    about, result = f"{schema.name} v{version}", "b''.join((*whole, *parts))"
    write: Callable[[Any], Generator[None, None, bytes]] = _finish_writer(source, about, result)
    return write


@cache
def writer(schema: Schema, version: int) -> Writer:
    """Return the writer of this version's bodies, compiled on first use."""
    source = _WriterSource(version, version >= schema.flexible)
    source.group(schema.group, "message", with_tags=True)
    write: Writer = _finish_writer(source, f"{schema.name} v{version}")
    return write
