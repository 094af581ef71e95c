"""Devices that candidates run on: memory shared with workers, tensors in it, and the parts that only a GPU needs."""
