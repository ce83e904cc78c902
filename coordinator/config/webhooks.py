"""Keys of webhooks."""

from typing import Annotated, ClassVar
from urllib.parse import urlsplit

from msgspec import Struct

from coordinator.config.keys import ParsedText, Secret, about, whole

EVENT_TYPES = ("note", "problem.closed", "problem.opened")
_MOST_URLS = 8


class WebhookUrls(ParsedText, frozen=True):
    """Addresses that are told of events, with commas between them."""

    allowed: ClassVar[str] = f"http or https URL[,URL...], {_MOST_URLS} at most, or nothing"
    all: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ",".join(self.all)

    @classmethod
    def parse(cls, text: str) -> "WebhookUrls":
        """Parse addresses; ValueError for one that is none, or too many."""
        found = tuple(dict.fromkeys(one.strip() for one in text.split(",") if one.strip()))
        for one in found:
            parts = urlsplit(one)
            if parts.scheme not in ("http", "https") or not parts.hostname or (parts.port or 1) < 1:
                raise ValueError(text)
            parts.hostname.encode("idna")  # as the resolver does; UnicodeError is a ValueError
        if len(found) > _MOST_URLS:
            raise ValueError(text)
        return cls(found)


class EventTypes(ParsedText, frozen=True):
    """Types of events, with commas between them."""

    allowed: ClassVar[str] = f"some of {','.join(EVENT_TYPES)}"
    all: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return ",".join(sorted(self.all))

    @classmethod
    def parse(cls, text: str) -> "EventTypes":
        """Parse types; ValueError for one that is none, or none at all."""
        found = frozenset(one.strip() for one in text.split(","))
        if not found <= set(EVENT_TYPES):
            raise ValueError(text)
        return cls(found)


class WebhookConfig(Struct, frozen=True, kw_only=True):
    """Webhooks' keys of `Config`."""

    webhook_urls: Annotated[
        WebhookUrls,
        about("Addresses that events of groups are posted to, as JSON, while HTTP listens.", section="Webhooks"),
    ] = WebhookUrls()
    webhook_events: Annotated[EventTypes, about("Types of events that are posted.")] = EventTypes(
        frozenset({"problem.closed", "problem.opened"})
    )
    webhook_secret: Annotated[
        Secret | None,
        about("Key of the header Muster-Signature, which authenticates the sender; better in the environment."),
    ] = None
    webhook_timeout_ms: Annotated[int, whole("How long a receiver may take to reply.", 100)] = 5_000
    webhook_retries: Annotated[
        int, whole("Attempts after the first failed one; then the events of that post are dropped.")
    ] = 8
    webhook_queue_events: Annotated[
        int, whole("Events that may wait for one receiver; beyond them the oldest are dropped.", 1)
    ] = 1_000
