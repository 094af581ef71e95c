"""What the spans of an episode and of its turns contain: names, states and figures, never a prompt or an answer."""

from collections.abc import Sequence

from warpsmith.evaluator.verdict_spans import attributes_of
from warpsmith.records.tracing import Attributes
from warpsmith.rollout.turn_recording import EpisodeLabels, TurnRecord, TurnRow


def labels_of(labels: EpisodeLabels) -> Attributes:
    """Return the attributes that an episode has from its start."""
    return {
        "warpsmith.run": labels.run,
        "warpsmith.environment": labels.task,
        "warpsmith.role": labels.role,
        "warpsmith.problem": labels.problem.name,
        "warpsmith.level": labels.problem.level,
        "warpsmith.trajectory": labels.trajectory,
        "warpsmith.step": labels.rollout_step,
        "warpsmith.stage": labels.stage,
    }


def outcome_of(rows: Sequence[TurnRow]) -> Attributes:
    """Return the attributes of an episode that has ended."""
    last = rows[-1]
    return {"warpsmith.turns": len(rows), "warpsmith.valid": last["valid"], "warpsmith.return": rows[0]["return"]}


def turn_of(turn: TurnRecord) -> Attributes:
    """Return the attributes of a turn that has ended."""
    completion = turn.completion
    found: dict[str, str | bool | int | float | None] = {
        "warpsmith.agent": turn.agent,
        "warpsmith.valid": turn.score.valid,
        "warpsmith.reward": turn.score.value,
        "warpsmith.prompt_tokens": len(turn.prompt_ids),
    }
    if completion is not None:
        versions = completion.weight_versions
        found["warpsmith.completion_tokens"] = len(completion.ids)
        found["warpsmith.finish_reason"] = completion.finish_reason
        found["warpsmith.weight_version"] = max(versions) if versions else None
    return found if turn.verdict is None else {**attributes_of(turn.verdict), **found}
