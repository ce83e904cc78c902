"""Features of a coordinator that serves server-driven groups, at the level of KIP-848. Levels begin at 1, since Java
clients before 4.0 reject 0."""

from typing import Final

from protocol.messages.node import FinalizedFeature, SupportedFeature

SUPPORTED_FEATURES: Final = (SupportedFeature("group.version", 1, 1),)
FINALIZED_FEATURES: Final = (FinalizedFeature("group.version", 1, 1),)

GATEWAY_FEATURE: Final = SupportedFeature("muster.gateway", 1, 1)
"""Feature of Muster's listeners in front of brokers, which otherwise advertise a broker's APIs. Clients ignore unknown
features; Muster's tools recognize such a listener by it."""
