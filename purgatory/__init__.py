"""A timing wheel and delayed operations. This package knows no group and reads no clock."""

from purgatory.purgatory import DelayedOperation, DelayedOperationPurgatory
from purgatory.wheel import Entry, TimingWheel

__all__ = ["DelayedOperation", "DelayedOperationPurgatory", "Entry", "TimingWheel"]
