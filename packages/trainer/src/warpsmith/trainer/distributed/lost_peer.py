"""Distinguishes the loss of another rank from other failures. Imports no torch."""


def is_lost_peer(error: RuntimeError) -> bool:
    """Return whether an error of torch.distributed means that another process of the group has ended.

    gloo raises plain RuntimeErrors that name its source files; NCCL and the store have their own types, matched by name
    to avoid importing torch.
    """
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return "DistError" in kinds or "gloo" in str(error) or "Connection closed by peer" in str(error)
