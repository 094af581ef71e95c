# problem: add
# permitted: runtime_error, compile_error
# Subclasses a reference that it hopes to find in its own namespace or among the modules.
import sys

import torch.nn as nn

Model = getattr(sys.modules.get("problem"), "Model", None) or getattr(sys.modules.get("__main__"), "Model", None)


class ModelNew(Model or nn.Module):
    pass
