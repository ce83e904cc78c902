"""Features of a coordinator that serves server-driven groups, at the level of KIP-848. Levels begin at 1: clients of
Java before 4.0 take no 0."""

from typing import Final

from protocol.messages.node import FinalizedFeature, SupportedFeature

SUPPORTED_FEATURES: Final = (SupportedFeature("group.version", 1, 1),)
FINALIZED_FEATURES: Final = (FinalizedFeature("group.version", 1, 1),)

GATEWAY_FEATURE: Final = SupportedFeature("muster.gateway", 1, 1)
"""Feature of a listener of Muster's in front of a broker that offers what else only brokers do. Clients read no feature
that they do not know; Muster's tools tell the listener from the broker by it."""
