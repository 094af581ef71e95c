"""Messages between client, judge, zygotes and workers: codec, kinds, and the descriptions of tensors."""
