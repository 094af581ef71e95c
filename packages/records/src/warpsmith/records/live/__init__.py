"""The live page: runs in the browser while they write, read-only, on loopback by default."""

from warpsmith.records.live.server import serve

__all__ = ["serve"]
