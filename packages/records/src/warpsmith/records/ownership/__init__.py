"""A run directory has one owner at a time, across all processes and hosts that see it.

docs/training.md, "One owner", gives the rule and how to override it.
"""

from warpsmith.records.ownership.errors import OwnershipLostError, RunInUseError
from warpsmith.records.ownership.judgement import Timing
from warpsmith.records.ownership.owner import owned

__all__ = ["OwnershipLostError", "RunInUseError", "Timing", "owned"]
