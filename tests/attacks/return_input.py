# problem: relu
# permitted: rejected, incorrect
# Returns a view of the input.
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.view(-1)
