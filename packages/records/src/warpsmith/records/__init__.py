from warpsmith.records._version import __version__

__all__ = ["__version__"]
