"""One SFT file as a run for each agent: `warpsmith-trainer sft CONFIG --each-agent`."""

from pathlib import Path

from warpsmith.rollout.turns import GENERATOR, OPTIMIZER
from warpsmith.trainer.config.sft import SftConfig
from warpsmith.trainer.config.sources import GeneratedSource
from warpsmith.trainer.errors import ConfigError

AGENTS = (GENERATOR, OPTIMIZER)


def runs_of_agents(config: SftConfig, *, resume: bool = False) -> dict[str, list[str]]:
    """Return by agent what its run changes in the file: its directory in `run.dir`, and who is asked.

    Args:
        config: the file.
        resume: leave out agents whose run is finished.

    Raises:
        ConfigError: the examples are not of one generated source, so that nothing says whose they are.
    """
    if config.data.sources or not isinstance(config.data.source, GeneratedSource):
        raise ConfigError(
            "--each-agent needs examples of which it can say whose they are: one [data.source] of generated problems.",
            'Set data.source.type = "generated", or write a file for each agent.',
        )
    found = {agent: Path(config.run.dir) / agent for agent in AGENTS}
    return {
        agent: [f"run.dir={folder}", f"data.source.agent={agent}"]
        for agent, folder in found.items()
        if not (resume and (folder / "final_model").exists())
    }


def has_begun(overrides: list[str]) -> bool:
    """Whether the run with these changes has a checkpoint to resume from."""
    return (Path(overrides[0].removeprefix("run.dir=")) / "checkpoints").exists()
