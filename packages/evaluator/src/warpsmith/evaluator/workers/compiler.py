"""The compile worker: compiles the kernels of one candidate. No candidate process can reach its channel."""

from pathlib import Path

from warpsmith.evaluator import _native
from warpsmith.evaluator.ipc import messages
from warpsmith.evaluator.ipc.messages import Kind
from warpsmith.evaluator.languages.base import KernelLanguage
from warpsmith.evaluator.languages.chips import Chip


def serve(channel: _native.Channel, scratch: Path, language: KernelLanguage, arch: Chip) -> None:
    """Compile once, answer, and end."""
    fields = messages.receive_work(channel).fields
    source, launches, binaries = fields.text("source"), fields.sequence("launches"), fields.flag("binaries")
    # The judge sends one that it knows, and candidates cannot reach this channel.
    language = language.parts[fields.text("language")]
    messages.send(channel, Kind.COMPILED, language.compile(source, launches, scratch, arch, binaries=binaries))
