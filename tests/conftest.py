"""What the tests of the whole share."""

import sys
from pathlib import Path

# pytest's importlib mode leaves sys.path alone, and the tests share what stands in support/.
sys.path.insert(0, str(Path(__file__).parent / "support"))
