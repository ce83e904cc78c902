"""Answer DeleteTopics."""

from coordinator.clock import Moment
from coordinator.core.core import Core
from coordinator.facts.admin_notes import note_admin
from coordinator.groups.classic.notes import Cause
from coordinator.handlers.client_balanced import topics_changed
from coordinator.handlers.fetch_completion import fetch_ready
from coordinator.tasks.topic_deletion import TASK
from coordinator.topics.rules import TopicRefusal
from protocol.messages.topics import DeletedTopic, DeleteTopics
from protocol.session import RequestRef


def delete_topics(core: Core, ref: RequestRef, message: DeleteTopics, moment: Moment) -> None:
    """Answer when the topics' logs and committed offsets are deleted, and that is durable."""
    replies, names = [], set()
    for wanted, topic in core.embedded.deletable(message):
        if isinstance(topic, TopicRefusal):
            replies.append(DeletedTopic(wanted.name, wanted.topic_id, topic.error, topic.message))
            continue
        name, topic_id = topic.record.name, topic.record.topic_id
        notified = core.embedded.delete(topic, moment)
        if isinstance(notified, TopicRefusal):
            replies.append(DeletedTopic(name, topic_id, notified.error, notified.message))
            continue
        replies.append(DeletedTopic(name, topic_id))
        names.add(name)
        for key in notified:
            for ready in core.purgatory.check_and_complete(key):
                fetch_ready(core, ready)
    if names:
        note_admin(core, ref, Cause.TOPIC_DELETED, "delete topic", ", ".join(sorted(names)), moment)
        topics_changed(core, moment)
    core.deletions.wait(ref, replies, names, moment.monotonic_ms + max(message.timeout_ms, 0))
    delay_ms = core.deletions.run(core.embedded, core.shards, core.outbox, moment)
    if delay_ms is not None:
        core.schedule(TASK, moment.monotonic_ms + delay_ms)
