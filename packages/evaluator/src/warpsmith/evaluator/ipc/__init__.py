"""Messages between client, judge, zygotes and workers: codec, kinds, and tensor descriptions."""
