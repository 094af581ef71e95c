"""Policies: models, chat templates, loss masks, log-probabilities, adapters.

Importing this package imports neither torch nor transformers; its modules are imported by name.
"""

from warpsmith.policy._version import __version__
from warpsmith.policy.config import LoraSettings, PolicyConfig, TinySettings

__all__ = ["LoraSettings", "PolicyConfig", "TinySettings", "__version__"]
