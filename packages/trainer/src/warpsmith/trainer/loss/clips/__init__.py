"""Clips of the importance ratio, by name: entry points of the group `warpsmith.clips`. Imports no torch."""

from warpsmith.records.registry import Registry
from warpsmith.trainer.loss.clips.base import Clip
from warpsmith.trainer.section import part_of

CLIPS: Registry[type[Clip]] = Registry("warpsmith.clips", "clip", part_of(Clip))

__all__ = ["CLIPS", "Clip"]
