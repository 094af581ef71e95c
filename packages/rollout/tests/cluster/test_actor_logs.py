"""Actors and samplers that die in real ways: the error says how, and quotes the log of the process that died."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from warpsmith.records.last_words import LINES, notes_of, quoted
from warpsmith.rollout.cluster import logs as actor_logs
from warpsmith.rollout.cluster.calls import call_with_deadline
from warpsmith.rollout.cluster.session import ray_session
from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.errors import ActorFailedError, ActorLostError, SamplerDiedError, SamplerError
from warpsmith.rollout.samplers import Sampling
from warpsmith.rollout.samplers.pool import SamplerPool
from warpsmith.rollout.samplers.ray_actor import RemoteSampler
from warpsmith.rollout.samplers.registry import start_sampler

pytestmark = pytest.mark.slow


class Mortal:
    """An actor that dies as it is asked to, with a word before."""

    def __init__(self, birth: str = "") -> None:
        if birth == "raises":
            raise ValueError("no such device\nlook again")

    async def work(self, death: str) -> int:
        print("lines on stdout too", flush=True)
        print(f"last words before {death}", file=sys.stderr, flush=True)
        if death == "exit":
            os._exit(3)
        if death == "sys.exit":
            sys.exit(4)
        if death == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if death == "crash":
            os.abort()
        raise KeyError("wrong answer")


@pytest.fixture(scope="module")
def ray():
    # Lets a test break a sampler's process from within, and the sampler of a GPU start without one.
    environment = {"VLLM_ALLOW_INSECURE_SERIALIZATION": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    os.environ.update(environment)
    with ray_session(num_cpus=2, object_store_bytes=128 << 20):
        import ray

        yield ray
    for name in environment:
        del os.environ[name]


async def error_of(reference):
    with pytest.raises((ActorLostError, ActorFailedError)) as caught:
        await call_with_deadline(reference, 60, "sampler 3", "to work")
    return caught.value


def test_an_actor_that_dies_says_how_and_its_log_is_quoted(ray):
    async def go():
        for death, how in {
            "exit": "Worker unexpectedly exits",
            "sys.exit": "exit code 4",
            "kill": "Worker unexpectedly exits",
            "crash": "Worker unexpectedly exits",
        }.items():
            error = await error_of(ray.remote(Mortal).remote().work.remote(death))
            assert isinstance(error, ActorLostError)
            assert error.message.startswith("The actor of sampler 3 died: ")
            assert how in error.message
            assert "restart" not in str(error)
            assert "common causes" not in str(error)
            out, err = notes_of(error)
            assert "    lines on stdout too" in out
            heading, *lines = err.splitlines()
            log = Path(heading.removeprefix("The last lines of ").removesuffix(":"))
            assert log.suffix == ".err" and f"last words before {death}" in log.read_text()
            assert 1 <= len(lines) <= LINES
            if death == "crash":
                assert "Fatal Python error: Aborted" in log.read_text()
            else:
                assert lines == [f"    last words before {death}"]

    asyncio.run(go())


class Logged(Mortal):
    """The same with a log in a run's directory."""

    def __init__(self, log: str) -> None:
        actor_logs.write_to(Path(log))


def test_an_actor_with_a_log_of_its_own_is_quoted_from_it(ray, tmp_path):
    log = tmp_path / "logs" / "sampler-3.log"

    async def go():
        for death in ("exit", "raise"):
            call = ray.remote(Logged).remote(str(log)).work.remote(death)
            with pytest.raises((ActorLostError, ActorFailedError)) as caught:
                await call_with_deadline(call, 60, "sampler 3", "to work", log=log)
            (note,) = notes_of(caught.value)
            heading, *lines = note.splitlines()
            assert heading == f"The last lines of {log}:"
            assert lines == ["    lines on stdout too", f"    last words before {death}"], "of this start alone"

    asyncio.run(go())
    assert log.read_text().count("=== pid ") == 2


def test_an_actor_whose_node_cannot_write_the_log_keeps_rays(ray, tmp_path):
    (tmp_path / "logs").write_text("a file")
    log = tmp_path / "logs" / "sampler-3.log"

    async def go():
        call = ray.remote(Logged).remote(str(log)).work.remote("exit")
        with pytest.raises(ActorLostError) as caught:
            await call_with_deadline(call, 60, "sampler 3", "to work", log=log)
        said = "".join(notes_of(caught.value))
        assert f"{log} cannot be written on this node" in said
        assert "last words before exit" in said

    asyncio.run(go())


def test_an_actor_that_raises_quotes_its_log_and_one_that_cannot_start_says_why(ray):
    async def go():
        error = await error_of(ray.remote(Mortal).remote().work.remote("raise"))
        assert isinstance(error, ActorFailedError)
        assert error.message == "sampler 3 failed: KeyError: 'wrong answer'."
        assert any("last words before raise" in note for note in notes_of(error))
        error = await error_of(ray.remote(Mortal).remote("raises").work.remote(""))
        assert error.message == (
            "The actor of sampler 3 died: it could not start: ValueError: no such device look again"
        )

    asyncio.run(go())


def test_an_actor_that_ray_ends_for_want_of_a_word_names_the_logs(ray):
    async def go():
        mortal = ray.remote(Mortal).remote()
        await call_with_deadline(mortal.__ray_ready__.remote(), 60, "sampler 3", "to start")
        ray.kill(mortal)
        error = await error_of(mortal.work.remote("exit"))
        assert "ray.kill" in error.message
        assert str(actor_logs.folder_of_session()) in "".join(notes_of(error))

    asyncio.run(go())


def test_the_log_of_another_node_is_read_there(ray):
    (node,) = ray.nodes()
    (note,) = actor_logs.log_on_node(node["NodeManagerAddress"], Path("/nowhere"), 1)
    assert note.startswith(f"On {node['NodeManagerAddress']}: The actor's process 1 left no log in /nowhere")
    (note,) = actor_logs.log_on_node("198.51.100.7", Path("/nowhere"), 1)
    assert note == "The actor's log is in /nowhere on 198.51.100.7, a node that has left the cluster."


def test_of_several_processes_the_first_that_failed_is_quoted(tmp_path):
    log = tmp_path / "worker.out"
    log.write_text(
        ":job_id:01\n(SamplerCore pid=7) INFO loading\n(VllmWorker-1 pid=8) ERROR ValueError: no memory\n"
        "(SamplerCore pid=7) ERROR see above\n(MainProcess pid=6) ERROR see above\nplain\n"
    )
    lines = quoted(log, skip=actor_logs.log_noise(log)).splitlines()[1:]
    assert lines == ["    (VllmWorker-1 pid=8) ERROR ValueError: no memory", "    plain"]


def breaks(worker):
    def fails(*_arguments, **_options):
        raise RuntimeError("the card fell off the bus")

    worker.execute_model = fails


def break_sampler(actor):
    """Break the sampler from the loop that it works in; what is broken does not answer any more."""
    vllm = actor.sampler.vllm
    asyncio.run_coroutine_threadsafe(vllm.collective_rpc(breaks), vllm.output_handler.get_loop())


@pytest.mark.long  # half a minute for an engine; how its log is read and how actors die is tested above
@pytest.mark.timeout(600)
def test_a_sampler_that_dies_in_its_core_process_quotes_that_process(ray, tiny_checkpoint):
    config = SamplerConfig(device="cuda", dtype="float32", max_model_len=256, max_sequences=4, enforce_eager=True)
    config = config.model_copy(update={"gpu_memory_utilization": 0.1})

    async def go():
        sampler = RemoteSampler(tiny_checkpoint, config, name="sampler 5", actor_options={"num_cpus": 1})
        pool = SamplerPool([sampler], max_restarts=0)
        await pool.ready()
        assert len((await pool.generate([5, 6, 7], Sampling(max_tokens=3))).ids) == 3
        await sampler.actor.__ray_call__.remote(break_sampler)
        message = r"sampler 5 died 1 times.*vLLM's engine process has ended"
        with pytest.raises(SamplerDiedError, match=message) as caught:
            while True:
                await pool.generate([5, 6, 7], Sampling(max_tokens=3))
        out = next(note for note in notes_of(caught.value) if ".out:" in note.splitlines()[0])
        assert "RuntimeError: the card fell off the bus" in out
        # One process of vLLM's, the one that failed: not those that it took along.
        (process,) = {line.partition(" ERROR ")[0] for line in out.splitlines()[1:]}
        assert "MainProcess" not in process
        await pool.close()

    asyncio.run(go())


def test_a_sampler_that_cannot_start_keeps_its_type_and_quotes_its_log(ray, tiny_checkpoint, tmp_path):
    async def go():
        config, log = SamplerConfig(dtype="float32", max_model_len=100_000), tmp_path / "sampler-7.log"
        broken = RemoteSampler(tiny_checkpoint, config, name="sampler 7", log=log)
        with pytest.raises(SamplerError, match="vLLM cannot start on") as caught:
            await broken.ready()
        assert any(f"The last lines of {log}:" in note for note in notes_of(caught.value))
        await broken.close()

    asyncio.run(go())


class WithoutVllm:
    """Finds no vLLM, as on a machine where it is not installed."""

    def find_spec(self, name, _path=None, _target=None):
        if name == "vllm":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_sampler_without_vllm_names_the_extra_that_brings_it(tiny_checkpoint, monkeypatch, device):
    for name in [name for name in sys.modules if name.partition(".")[0] == "vllm"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [WithoutVllm(), *sys.meta_path])
    with pytest.raises(SamplerError, match=r"vLLM is not installed.*packages/rollout\[cpu\]"):
        start_sampler(tiny_checkpoint, SamplerConfig(device=device))
