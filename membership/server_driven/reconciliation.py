"""Reconciliation: from the owned partitions to the assigned ones (docs/spec/consumer-group-protocol.md#17). Revoked
partitions are released and reported before new ones are added."""

from membership import subscription
from membership.events import Assigned, HangUp
from membership.member import State, Timer
from membership.replies import AllTopicsAnswered, MetadataAnswered
from membership.server_driven.state import ServerDrivenState
from protocol.errors import ErrorCode
from protocol.messages.groups import NO_GENERATION
from protocol.messages.topics import Metadata, MetadataTopic


def reconcile(m: ServerDrivenState) -> None:
    """Take the next step, unless the application is releasing partitions."""
    if m.target is None or m.releasing or m.state is not State.STEADY:
        return
    share = m.share
    wanted, before = set(share), set(m.held)
    taken_away = tuple(one for one in m.held if one not in wanted)
    if taken_away:
        m.revoke(taken_away)
        return
    added = tuple(one for one in share if one not in before)
    is_first = m.last_generation_id == NO_GENERATION
    if not added and is_first and m.unnamed:
        return
    m.last_generation_id = m.generation_id
    if not added and not is_first:
        return
    m.held = share
    m.last_assigned = share
    m.effects.append(Assigned(share, m.generation_id, added))
    report(m)


def report(m: ServerDrivenState) -> None:
    """Report the held partitions to the coordinator at once, if they have changed."""
    if m.reported != m.owned():
        m.is_urgent = True


def wants_names(m: ServerDrivenState) -> bool:
    """Return true if the name of a topic in the target is unknown, and may be requested."""
    return bool(m.unnamed) and Timer.REFRESH not in m.timers and not m.is_asking(Metadata)


def ask_names(m: ServerDrivenState) -> None:
    """Request the topics of the target by their ids."""
    topics = tuple(MetadataTopic(None, topic_id) for topic_id in m.unnamed)
    m.call(Metadata(topics), timeout_ms=m.settings.request_timeout_ms, anywhere=True)


def on_metadata_reply(m: ServerDrivenState, event: MetadataAnswered) -> None:
    if event.reply is not None:
        m.learn_topics(event.reply)
    elif event.error_code == ErrorCode.NETWORK_EXCEPTION:
        m.effects.append(HangUp(event.sent.node))  # so that another node answers the next request
    if m.unnamed:
        m.arm(Timer.REFRESH, m.backoff_ms(m.topics_failures))
        m.topics_failures += 1
    else:
        m.topics_failures = 0
    reconcile(m)


def on_topics_reply(m: ServerDrivenState, event: AllTopicsAnswered) -> None:
    """Store the topics of a pattern."""
    if event.reply is not None:
        m.learn_topics(event.reply)
    subscription.on_topics_reply(m, event)
    reconcile(m)
