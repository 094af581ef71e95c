"""A run directory has one owner at a time, over all processes and hosts that see it.

The rule, and what to do by hand, is written in docs/training.md, "One owner".
"""

from warpsmith.records.ownership.errors import OwnershipLostError, RunInUseError
from warpsmith.records.ownership.judgement import Timing
from warpsmith.records.ownership.owner import owned

__all__ = ["OwnershipLostError", "RunInUseError", "Timing", "owned"]
