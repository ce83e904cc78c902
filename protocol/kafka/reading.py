"""Compiles schemas to readers: for each version a function without a branch on the version.

The source is straight-line code: neighbouring fields of fixed width are one `struct` call, which also reads the length
of the field after them. A reader gets a whole frame and never reads beyond it. Its output is bounded too, however small
the elements are: at most `MAX_ENTRIES` elements, or another given number, in all arrays and tagged fields together.
"""

from collections.abc import Callable
from functools import cache
from struct import Struct, error, unpack_from
from typing import Any, Final

from protocol.errors import ErrorCode, ProtocolViolation
from protocol.kafka.fields import (
    ERROR,
    Absent,
    Field,
    FieldGroup,
    Fixed,
    Inline,
    Many,
    Maybe,
    Nested,
    SameAs,
    Scalar,
    Schema,
    Sized,
)
from protocol.kafka.source import Source, default, is_required, present
from protocol.kafka.varint import read_tags, read_uvarint
from protocol.messages import Message

MAX_ENTRIES: Final = 131_072

Reader = Callable[[bytes, int], Any]
"""Function from a frame and the position of its body to the message. Raises ProtocolViolation."""


class _Errors(dict[int, ErrorCode]):
    """Error codes by number: the known ones, and codes made for unknown numbers of newer servers."""

    def __missing__(self, number: int) -> ErrorCode:
        return ErrorCode(number)


_ERRORS: Final = _Errors({int(code): code for code in ErrorCode})


def _refuse(what: str) -> None:
    raise ProtocolViolation(what)


def _read_many(data: bytes, position: int, count: int, code: str) -> tuple[Any, ...]:
    return unpack_from(f">{count}{code}", data, position)


class _ReaderSource(Source):
    """Source of a reader. `_run`: names and codes of fixed-width fields not yet read."""

    def __init__(self, version: int, is_flexible: bool, decode: str, most: int, *, is_answer: bool) -> None:
        super().__init__()
        self.most = most
        self.is_answer = is_answer
        self.version = version
        self.is_flexible = is_flexible
        self.decode = decode
        self._run: list[tuple[str, str]] = []
        self.names.update(
            read_uvarint=read_uvarint,
            read_tags=read_tags,
            read_many=_read_many,
            refuse=_refuse,
            errors=_ERRORS,
        )

    def flush(self) -> None:
        if not self._run:
            return
        code = Struct(">" + "".join(code for _, code in self._run))
        names = ", ".join(name for name, _ in self._run)
        comma = "," if len(self._run) == 1 else ""
        self.line(f"{names}{comma} = {self.keep(code.unpack_from, 'unpack')}(data, pos)")
        self.line(f"pos += {code.size}")
        self._run.clear()

    def end(self, value: str) -> None:
        """Add a check that the frame was long enough: once at the end, since slices beyond it do not raise."""
        self.line("if pos > len(data):")
        self.line("    refuse('the frame ends before its fields do')")
        self.line(f"return {value}")
        self.lines.insert(0, f"{'    ' * self.depth}left = {self.most}")

    def fixed(self, kind: Fixed) -> str:
        name = self.new()
        self._run.append((name, kind.code))
        return name

    def length(self, code: str) -> str:
        """Add code that reads a length; return the name of its variable, which is -1 for null in both encodings."""
        name = self.new("n")
        if self.is_flexible:
            self.flush()
            self.line(f"{name} = data[pos] - 1")
            self.line("pos += 1")
            self.line(f"if {name} > 126:")
            self.line(f"    {name}, pos = read_uvarint(data, pos - 1)")
            self.line(f"    {name} -= 1")
        else:
            self._run.append((name, code))
            self.flush()
        return name

    def sized(self, row_name: str, kind: Sized, *, nullable: bool) -> str:
        size, name = self.length(kind.length_code), self.new()
        self.line(f"if {size} > 0:")
        if kind.longest is not None and not self.is_answer:
            self.line(f"    if {size} > {kind.longest}:")
            self.line(f"        refuse('{row_name}: longer than {kind.longest} bytes')")
        self.line(f"    end = pos + {size}")
        self.line(f"    {name} = data[pos:end]{self.decode if kind.is_text else ''}")
        self.line("    pos = end")
        self.line(f"elif {size} < 0:")
        self.line(f"    {name} = None" if nullable else f"    refuse('{row_name}: a negative length')")
        self.line("else:")
        self.line(f"    {name} = {'' if kind.is_text else 'b'}''")
        return name

    def scalar(self, row_name: str, kind: Scalar, *, nullable: bool) -> str:
        return self.fixed(kind) if isinstance(kind, Fixed) else self.sized(row_name, kind, nullable=nullable)

    def many(self, row_name: str, kind: Many, *, nullable: bool) -> str:
        count, name = self.length("i"), self.new()
        self.line(f"if {count} < 0:")
        self.line(f"    {name} = None" if nullable else f"    refuse('{row_name}: a negative count')")
        self.line("else:")
        self.depth += 1
        self.line(f"left -= {count}")
        self.line("if left < 0:")
        self.line(f"    refuse('{row_name}: more than {self.most} entries in one request')")
        if isinstance(kind.item, Fixed) and len(kind.item.code) == 1:
            self.line(f"{name} = read_many(data, pos, {count}, '{kind.item.code}')")
            self.line(f"pos += {Struct('>' + kind.item.code).size} * {count}")
        else:
            items = self.new("items")
            self.line(f"{items} = []")
            self.line(f"for _ in range({count}):")
            self.depth += 1
            if isinstance(kind.item, FieldGroup):
                item = self.group(kind.item, with_tags=not kind.bare)
            else:
                item = self.scalar(row_name, kind.item, nullable=False)
                self.flush()
            self.line(f"{items}.append({item})")
            self.depth -= 1
            self.line(f"{name} = tuple({items})")
        self.depth -= 1
        return name

    def maybe(self, kind: Maybe) -> str:
        flag, name = self.fixed(Fixed("b")), self.new()
        self.flush()
        self.line(f"if {flag} < 0:")
        self.line(f"    {name} = None")
        self.line("else:")
        self.depth += 1
        self.line(f"{name} = {self.group(kind.group, with_tags=True)}")
        self.depth -= 1
        return name

    def row(self, row: Field) -> str:
        nullable = self.version >= row.nullable
        if isinstance(row.type, Many):
            value = self.many(row.name, row.type, nullable=nullable)
        elif isinstance(row.type, Inline):
            value = f"({self.group(row.type.group, with_tags=False)},)"
        elif isinstance(row.type, Maybe):
            value = self.maybe(row.type)
        elif isinstance(row.type, Nested):
            value = self.group(row.type.group, with_tags=True)
        else:
            value = self.scalar(row.name, row.type, nullable=nullable)
            if row.type is ERROR:
                value = f"errors[{value}]"
        return f"({row.read_as.format(value)})" if row.read_as else value

    def group(self, group: FieldGroup, *, with_tags: bool) -> str:
        """Add code that reads the fields; return the expression that makes the struct."""
        values: dict[str, str] = {}
        tagged = [row for row in present(group, self.version) if row.tag is not None]
        for row in present(group, self.version):
            if row.tag is None:
                values[row.name] = self.row(row)
        values.pop("", None)
        self.flush()
        if with_tags and self.is_flexible:
            if tagged:
                tags = self.new("tags")
                self.line(f"{tags}, pos = read_tags(data, pos)")
                for row in tagged:
                    values[row.name] = self._from_tag(row, tags, default(group, row.name))
            else:
                self.line("if data[pos]:")
                self.line("    tags, pos = read_tags(data, pos)")
                self.line("    left -= len(tags)")
                self.line("    if left < 0:")
                self.line(f"        refuse('more than {self.most} entries in one request')")
                self.line("else:")
                self.line("    pos += 1")
        return self._construct(group, values)

    def _from_tag(self, row: Field, tags: str, usual: Any) -> str:
        one = FieldGroup(_Tagged, (row._replace(name="value", tag=None),), {})
        source = _ReaderSource(self.version, True, self.decode, self.most, is_answer=self.is_answer)
        value = source.row(one.rows[0])
        source.flush()
        read = _finish_reader(source, value, f"tag {row.name}")
        name = self.new()
        fallback = self.keep(usual)
        self.line(f"{name} = {self.keep(read)}({tags}[{row.tag}], 0) if {row.tag} in {tags} else {fallback}")
        return name

    def _construct(self, group: FieldGroup, values: dict[str, str]) -> str:
        for name, fact in group.facts.items():
            values[name] = self.keep(fact(self.version))
        arguments: list[str] = []
        fields = group.message.__struct_fields__
        last = max((index for index, name in enumerate(fields) if name in values), default=-1)
        rows = {row.name: row for row in group.rows}
        for index, name in enumerate(fields):
            row = rows.get(name)
            given = Absent if row is None else row.default
            if name in values:
                arguments.append(values[name])
            elif isinstance(given, SameAs):
                arguments.append(values[given.name])
            elif given is not Absent:
                arguments.append(self.keep(given))
            elif index < last or is_required(group, name):
                arguments.append(self.keep(default(group, name)))
            else:
                later = [rows[n].default is not Absent for n in fields[index:] if n in rows]
                if not any(later):
                    break
                arguments.append(self.keep(default(group, name)))
        return f"{self.keep(group.message, 'make')}({', '.join(arguments)})"


class _Tagged(Message):
    value: Any


def _finish_reader(source: _ReaderSource, value: str, about: str) -> Reader:
    source.end(value)
    read: Reader = source.build("read(data, pos)", about)
    return read


def _finish_whole_reader(source: _ReaderSource, value: str, about: str, mend: Reader) -> Reader:
    """Compile the reader, which raises only ProtocolViolation. `mend` reads frames with invalid UTF-8."""
    source.end(value)
    source.lines.insert(0, "    start = pos\n    try:")
    source.names.update(Violation=ProtocolViolation, Short=(IndexError, error), mend=mend)
    source.depth = 1
    source.line("except UnicodeDecodeError:")
    source.line("    return mend(data, start)")
    source.line("except Short:")
    source.line(f"    raise Violation('{about}: the frame ends before its fields do') from None")
    source.line("except Violation as violation:")
    source.line(f"    raise Violation(f'{about}: {{violation}}') from None")
    read: Reader = source.build("read(data, pos)", about)
    return read


@cache
def _compile_reader(schema: Schema, version: int, decode: str, most: int, is_answer: bool) -> Reader:
    source = _ReaderSource(version, version >= schema.flexible, decode, most, is_answer=is_answer)
    source.depth = 2
    value = source.group(schema.group, with_tags=True)

    # Java decodes invalid UTF-8 to U+FFFD, so such clients work with Kafka and must work here.
    def mend(data: bytes, position: int) -> Any:
        return _compile_reader(schema, version, ".decode(errors='replace')", most, is_answer)(data, position)

    return _finish_whole_reader(source, value, f"{schema.name} v{version}", mend)


def reader(schema: Schema, version: int, most_entries: int = MAX_ENTRIES, *, is_answer: bool = False) -> Reader:
    """Return the reader of this version's bodies, compiled on first use. Bytes after the last field are ignored, as in
    Kafka. Replies of a server (`is_answer`) may have names of any length, which the server has accepted from other
    clients."""
    return _compile_reader(schema, version, ".decode()", most_entries, is_answer)
