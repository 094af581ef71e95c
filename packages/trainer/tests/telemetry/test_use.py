"""How busy the machine and the evaluator were: sampled by a thread, summed from verdicts, said in words."""

import sys
import time
from types import ModuleType, SimpleNamespace

import pytest

from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.rollout.config import RolloutConfig
from warpsmith.trainer.telemetry import evaluator_use, machine_use
from warpsmith.trainer.telemetry.console import lines
from warpsmith.trainer.telemetry.evaluator_use import EvaluationPlaces, evaluator_figures, places_of
from warpsmith.trainer.telemetry.machine_use import MachineUse

STEP = {"collect_s": 1.0, "train_s": 1.0, "sync_s": 1.0, "turns": 1.0, "invalid_turns": 0.0, "sampled_groups": 1.0}
STEP |= {"completion_length_max": 1.0, "rounds": 1.0}


class RefusedError(Exception):
    """What the driver raises."""


def driver(*busy: int | None) -> ModuleType:
    """A driver of GPUs that are busy to some per cent with 3 of 4 bytes in use; None refuses to say."""
    found = ModuleType("pynvml")

    def utilization(gpu: int) -> SimpleNamespace:
        share = busy[gpu]
        if share is None:
            raise RefusedError
        return SimpleNamespace(gpu=share)

    vars(found).update(
        NVMLError=RefusedError, nvmlInit=lambda: None, nvmlDeviceGetCount=lambda: len(busy),
        nvmlDeviceGetHandleByIndex=lambda number: number, nvmlDeviceGetUtilizationRates=utilization,
        nvmlDeviceGetMemoryInfo=lambda gpu: SimpleNamespace(used=3, total=4),
    )  # fmt: skip
    return found


def sampled(use: MachineUse) -> dict[str, float]:
    """Wait for a sample, and return the figures."""
    end = time.monotonic() + 30.0
    while not (found := use.figures()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


def test_a_machine_is_sampled_between_two_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", driver(87, None, 5))
    with MachineUse(every_s=0.02) as use:
        found = sampled(use)
        assert found == pytest.approx(
            {
                "machine/cpu_utilization": found["machine/cpu_utilization"],
                "machine/memory_share": found["machine/memory_share"],
                "gpu_0/utilization": 0.87, "gpu_0/memory_share": 0.75,
                "gpu_2/utilization": 0.05, "gpu_2/memory_share": 0.75,
            }
        )  # fmt: skip
        assert 0 <= found["machine/cpu_utilization"] <= 1
        assert 0 < found["machine/memory_share"] <= 1
        assert use.phrases[2:] == ["GPU 0 87%, 75% of its memory", "GPU 2 5%, 75% of its memory"]
    use.figures()
    assert use.figures() == {}, "nothing is sampled after the end"


@pytest.mark.parametrize("module", [None, driver()], ids=["no library", "no GPU"])
def test_without_gpus_only_the_machine_itself_is_shown(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType | None
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", module)
    with MachineUse(every_s=0.02) as use:
        assert set(sampled(use)) == {"machine/cpu_utilization", "machine/memory_share"}


def test_other_ranks_sample_nothing() -> None:
    with MachineUse(on=False, every_s=0.01) as use:
        time.sleep(0.05)
        assert (use.figures(), use.phrases) == ({}, [])


def test_the_most_memory_counts_and_the_mean_of_the_rest() -> None:
    use = MachineUse(on=False)
    use._samples = [{"gpu_0/utilization": 0.2, "gpu_0/memory_share": 0.9}, {"gpu_0/utilization": 0.4}]
    assert use.figures() == pytest.approx({"gpu_0/utilization": 0.3, "gpu_0/memory_share": 0.9})


def test_the_evaluators_use_is_that_of_its_slots_and_devices() -> None:
    spent = {"evaluate": 30.0, "lease": 2.5, "timing": 8.0, "wait": 100.0}
    timed = evaluator_figures(spent, 20.0, EvaluationPlaces(slots=3, devices=2))
    assert timed == pytest.approx(
        {"evaluator/busy_share": 0.5, "evaluator/lease_held_share": 0.2, "evaluator/lease_wait_s": 2.5}
    )
    assert evaluator_figures({"evaluate": 10.0}, 20.0, EvaluationPlaces(1, 1)) == {"evaluator/busy_share": 0.5}
    assert evaluator_figures(spent, 20.0, EvaluationPlaces(None, None)) == {"evaluator/lease_wait_s": 2.5}
    assert evaluator_use.in_words(timed) == [
        "evaluator 50% busy", "device leased for timing 20%", "waited for the lease 2.5s",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("evaluation", "slots", "places"),
    [
        ({"type": "process"}, 4, EvaluationPlaces(4, 1)),
        ({"type": "ray", "actors": 3, "cores": 2}, None, EvaluationPlaces(6, 3)),
        ({"type": "ray", "actors": 3, "cores": 2}, 5, EvaluationPlaces(15, 3)),
        ({"type": "server", "servers": ["http://10.0.0.7:18188"]}, 4, EvaluationPlaces(None, None)),
    ],
)
def test_places_are_those_of_the_configuration(
    evaluation: dict[str, object], slots: int | None, places: EvaluationPlaces
) -> None:
    rollout = RolloutConfig.model_validate({"evaluation": evaluation})
    evaluator = EvaluatorConfig.model_validate({} if slots is None else {"slots": slots})
    assert places_of(rollout, evaluator) == places


def test_a_step_says_what_was_in_use() -> None:
    use = {"machine/cpu_utilization": 0.9, "machine/memory_share": 0.25, "evaluator/busy_share": 0.7}
    assert lines(1, STEP | use).endswith("use: CPU 90%, memory 25%, evaluator 70% busy")
    assert "use:" not in lines(1, STEP)
    assert machine_use.in_words({}) == []
