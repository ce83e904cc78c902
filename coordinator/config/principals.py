"""Principals: names of clients, as Kafka writes them, and names from certificates (`ssl.principal.mapping.rules`)."""

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

ANONYMOUS: Final = "User:ANONYMOUS"
"""Principal of a connection that did not say who it is."""
NODE_ITSELF: Final = "Node:itself"
"""Principal of requests that the daemon makes on its own behalf; no client can have it: theirs begin with `User:`."""
LOOPBACK: Final = "127.0.0.1"
"""Host of requests from inside the process."""

_KEYWORDS: Final = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
"""Keywords of RFC 2253, by OpenSSL's long names."""
_EMAIL: Final = ("1.2.840.113549.1.9.1", 0x16)
"""Object identifier of an e-mail address, and the type of its value."""
_MOST_NAME: Final = 500
"""Characters of a certificate's name that are kept: each note has them."""
_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))\s*(?:,|$)"
)


class PrincipalRule(NamedTuple):
    """A rule: what a distinguished name must be, and what it becomes. `pattern` None leaves the name as it is."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """Return the mapped name; None if the rule does not match."""
        if self.pattern is None:
            return name
        found = self.pattern.fullmatch(name)
        if found is None:
            return None
        mapped = re.sub(r"\\(.)|\$(\d)", lambda part: part[1] or _group(found, int(part[2])), self.replacement)
        if self.case:
            mapped = mapped.lower() if self.case == "L" else mapped.upper()
        return mapped


def _group(found: re.Match[str], number: int) -> str:
    return (found[number] or "") if number <= (found.re.groups) else f"${number}"


def parse_rules(text: str) -> tuple[PrincipalRule, ...]:
    """Parse rules as Kafka writes them: `RULE:pattern/replacement/[LU]` and `DEFAULT`, with commas between them.
    Raises ValueError with a sentence."""
    rules: list[PrincipalRule] = []
    at = 0
    text = text.strip()
    while at < len(text):
        found = _RULE.match(text, at)
        if found is None:
            raise ValueError(f"{text[at : at + 100]!r} is no rule: DEFAULT or RULE:pattern/replacement/[LU] is")
        if found["default"]:
            rules.append(PrincipalRule(None))
        else:
            try:
                pattern = re.compile(found["pattern"])
            except re.error as error:
                raise ValueError(f"{found['pattern']!r} is no regular expression: {error}") from None
            rules.append(PrincipalRule(pattern, found["replacement"], found["case"]))
        at = found.end()
    return tuple(rules) or (PrincipalRule(None),)


def map_name(rules: Sequence[PrincipalRule], name: str) -> str | None:
    """Return the name by the first rule that matches; None if none does."""
    return next((mapped for rule in rules if (mapped := rule.apply(name)) is not None), None)


def distinguished_name(subject: Iterable[Iterable[tuple[str, str]]]) -> str:
    """Write the subject of a certificate, as `ssl` gives it, by RFC 2253: what Kafka's rules match."""
    return ",".join(
        "+".join(_attribute(name, value) for name, value in relative) for relative in reversed(tuple(subject))
    )


def certificate_text(subject: Sequence[Iterable[tuple[str, str]]], serial: str) -> str:
    """Write which certificate it is: its name, cut, and its serial number, as `ssl` gives them; empty for none."""
    if not subject and not serial:
        return ""
    return f"{distinguished_name(subject)[:_MOST_NAME]} serial={serial}".lstrip()


def _attribute(name: str, value: str) -> str:
    if name == "emailAddress":
        identifier, kind = _EMAIL
        encoded = value.encode()
        size = bytes([len(encoded)]) if len(encoded) < 0x80 else bytes([0x81, len(encoded)])
        return f"{identifier}=#{(bytes([kind]) + size + encoded).hex()}"
    return f"{_KEYWORDS.get(name, name)}={_escaped(value)}"


def _escaped(value: str) -> str:
    text = re.sub(r'([,+"\\<>;=])', r"\\\1", value)
    if text[:1] in ("#", " "):
        text = "\\" + text
    return text[:-1] + "\\ " if text.endswith(" ") and len(value) > 1 else text
