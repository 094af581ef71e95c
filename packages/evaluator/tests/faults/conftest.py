"""pytest's importlib mode leaves sys.path alone, and the tests share the injector."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
