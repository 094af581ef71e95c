# problem: add
# permitted: runtime_error, rejected
# Returns a tensor subclass that would compute when somebody reads it.
import torch
import torch.nn as nn


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return super().__torch_function__(function, types, args, kwargs or {})


class ModelNew(nn.Module):
    def forward(self, x, y):
        return torch.empty_like(x).as_subclass(Lazy)
