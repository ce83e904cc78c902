"""The subscription of a member that the coordinator balances: topics by name, by a pattern that is matched here, or by
a regular expression that the coordinator matches (docs/spec/consumer-group-protocol.md#6). Each replaces the others."""

from membership import subscription
from membership.events import Subscribed, SubscribedToPattern, SubscribedToRegex
from membership.server_driven.state import ServerDrivenState


def subscribe(m: ServerDrivenState, event: Subscribed) -> None:
    _drop_regex(m)
    subscription.subscribe(m, event)


def subscribe_to_pattern(m: ServerDrivenState, event: SubscribedToPattern) -> None:
    _drop_regex(m)
    subscription.subscribe_to_pattern(m, event)


def subscribe_to_regex(m: ServerDrivenState, event: SubscribedToRegex) -> None:
    """Have the coordinator match the topics."""
    subscription.subscribe(m, Subscribed(()))
    m.regex = event.regex


def _drop_regex(m: ServerDrivenState) -> None:
    if m.regex is not None:
        m.regex = ""  # sent as an empty text, since an absent field means no change
