"""Several devices behind one service: real evaluators, one of them broken by taking its interpreter away."""

import asyncio
import sys
import time
from contextlib import contextmanager

import pytest

from warpsmith.evaluator import DeviceQuarantinedError, Evaluator, EvaluatorConfig, JudgeUnavailableError
from warpsmith.evaluator.server.errors import RefusalError, refusal_of
from warpsmith.evaluator.server.service import Job, Service
from warpsmith.evaluator.server.settings import ServerSettings
from warpsmith.evaluator.verdict import invalid


@pytest.fixture
def broken(config):
    """An evaluator whose judge cannot start while the test takes Python away, and can afterwards."""
    evaluator = Evaluator(config.model_copy(update={"slots": 1}))
    yield evaluator
    evaluator.close()


@contextmanager
def no_python():
    """While it lasts no judge can be started."""
    real, sys.executable = sys.executable, "/bin/false"
    try:
        yield
    finally:
        sys.executable = real


def service_of(*evaluators, **settings):
    return Service(evaluators, ServerSettings(**settings), "landlock")


async def judged(service, ask):
    (place,) = service.admit()
    return await service.judge(ask, place)


def test_what_a_broken_device_loses_another_judges_and_the_broken_one_is_quarantined(
    evaluator, broken, add_problem, add_candidate
):
    async def go():
        service = service_of(evaluator, broken, max_failures=2)
        ask = Job("add", add_problem.source, add_candidate, trials=1, preferred_device=1)
        with no_python():
            for _ in range(2):
                assert service.device(1).status == "healthy"
                assert (await judged(service, ask)).correct
        assert service.device(1).status == "quarantined"
        assert "2 evaluations in a row failed" in service.device(1).cause
        assert (await judged(service, ask)).correct
        assert service.metrics.registry.get_sample_value("warpsmith_evaluator_moved_total") == 2
        assert (service.admission.running, service.admission.admitted) == (0, 0)

    asyncio.run(go())


def test_a_reset_brings_a_device_back_once_it_passed_its_probe(broken, add_problem, add_candidate):
    async def go():
        service = service_of(broken, max_failures=1)
        ask = Job("add", add_problem.source, add_candidate, trials=1)
        with no_python():
            with pytest.raises(JudgeUnavailableError):
                await judged(service, ask)
            with pytest.raises(RefusalError, match="quarantined") as refused:
                await judged(service, ask)
            assert (refused.value.status, refused.value.kind) == (503, "no_device")
            with pytest.raises(JudgeUnavailableError, match="did not start"):
                await service.device(0).reset(0)
            assert service.device(0).status == "quarantined"
        await service.device(0).reset(0)
        assert (service.device(0).status, service.device(0).cause) == ("healthy", "")
        assert service.device(0).facts == ("cpu", 90)
        assert (await judged(service, ask)).correct
        await service.close()

    asyncio.run(go())


@pytest.mark.slow
@pytest.mark.parametrize(
    "drains",
    [((30, "timeout"),), pytest.param(((30, "timeout"), (0, "invalid")), marks=pytest.mark.long)],
    ids=["in its time", "or at once"],
)
def test_what_runs_when_a_device_is_reset_gets_its_time_and_who_waits_is_served_afterwards(
    broken, add_problem, add_candidate, drains, monkeypatch
):
    sleeper = add_candidate.replace("        out =", "        import time; time.sleep(60)\n        out =")
    begun, evaluate = [], Evaluator.evaluate_async
    monkeypatch.setattr(
        Evaluator, "evaluate_async", lambda *what, **how: evaluate(*what, on_running=begun.append, **how)
    )

    async def go():
        service = service_of(broken)
        await service.open()
        for drain_s, status in drains:
            begun.clear()
            slow = asyncio.ensure_future(judged(service, Job("add", add_problem.source, sleeper, timeout_s=1.5)))
            # Only what has reached the judge gets the time that it asked for.
            await until(lambda: begun)
            reset = asyncio.ensure_future(service.device(0).reset(drain_s))
            waiting = asyncio.ensure_future(judged(service, Job("add", add_problem.source, add_candidate)))
            assert (await slow).status == status
            assert service.device(0).status == "restarting"
            await reset
            assert (await waiting).correct
            assert (service.admission.running, service.admission.admitted) == (0, 0)
        await service.close()

    asyncio.run(go())


def test_a_server_without_one_device_that_passes_its_probe_does_not_open(broken):
    async def go():
        with no_python(), pytest.raises(JudgeUnavailableError, match="Device 0: The judge did not start"):
            await service_of(broken).open()

    asyncio.run(go())


class Worn(Evaluator):
    """An evaluator whose device is out of use, as its judge would say."""

    async def evaluate_async(self, *_, **__):
        raise DeviceQuarantinedError("5 probes failed", "Reset it.")


def test_a_device_that_its_evaluator_calls_out_of_use_is_quarantined_at_once(evaluator, add_problem, add_candidate):
    async def go():
        ask = Job("add", add_problem.source, add_candidate, trials=1, preferred_device=0)
        service = service_of(Worn(EvaluatorConfig(slots=1)), evaluator)
        assert (await judged(service, ask)).correct
        assert (service.device(0).status, service.device(0).cause) == ("quarantined", "5 probes failed")
        alone = service_of(Worn(EvaluatorConfig(slots=1)))
        with pytest.raises(DeviceQuarantinedError) as raised:
            await judged(alone, ask)
        assert (refusal_of(raised.value).status, refusal_of(raised.value).kind) == (503, "device_quarantined")

    asyncio.run(go())


def test_memory_faults_of_candidates_take_no_device_out_of_service(evaluator, add_problem, add_candidate):
    fault = add_candidate.replace("        out =", "        import ctypes; ctypes.string_at(0)\n        out =")

    async def go():
        service = service_of(evaluator, max_failures=1)
        for number in range(3):
            verdict = await judged(service, Job("add", add_problem.source, f"{fault}# {number}", trials=1))
            assert verdict.error_category == "segmentation_fault"
        assert (service.device(0).status, service.device(0).faults) == ("healthy", 3)

    asyncio.run(go())


def test_devices_are_gpus_by_the_drivers_numbers_and_an_unknown_one_is_refused():
    evaluators = [Evaluator(EvaluatorConfig(device="cuda", gpu=gpu, slots=1)) for gpu in (2, 5)]
    service = service_of(*evaluators)
    assert list(service.devices) == [2, 5]
    with pytest.raises(RefusalError, match="The devices are: 2, 5"):
        service.device(0)


class Unlucky(Evaluator):
    """An evaluator that answers `invalid` to clients, and gives another what the server itself asks, as its probe."""

    def __init__(self, other, message):
        super().__init__(other.config)
        self.other, self.message = other, message

    async def evaluate_async(self, problem, candidate, **options):
        if candidate.endswith(OF_A_CLIENT):
            return invalid(self.message)
        return await self.other.evaluate_async(problem, candidate, **options)


OF_A_CLIENT = "# of a client\n"


async def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def test_verdicts_that_are_invalid_lead_to_a_probe_and_a_device_that_passes_it_stays(
    evaluator, add_problem, add_candidate
):
    async def go():
        unlucky = Unlucky(evaluator, "The judge failed: a request of a client made it so")
        service = service_of(unlucky, max_failures=3)
        device = service.device(0)
        for _ in range(30):
            verdict = await judged(service, Job("add", add_problem.source, add_candidate + OF_A_CLIENT, trials=1))
            assert verdict.status == "invalid"
        assert device.lane.troubles > 0
        await until(lambda: device.lane.troubles == 0)
        assert (device.status, device.cause) == ("healthy", "")

    asyncio.run(go())


def test_a_device_whose_verdicts_are_invalid_and_that_fails_its_probe_is_quarantined(
    broken, add_problem, add_candidate
):
    async def go():
        service = service_of(Unlucky(broken, "The evaluator lost a worker of its own, twice"), max_failures=2)
        device = service.device(0)
        with no_python():
            for _ in range(2):
                await judged(service, Job("add", add_problem.source, add_candidate + OF_A_CLIENT, trials=1))
            await until(lambda: device.status == "quarantined")
        assert "lost a worker" in device.cause

    asyncio.run(go())
