"""What every struck run needs: a policy that writes real kernels, and problems that take a while to judge."""

import json
import sys
from pathlib import Path

import pytest

# pytest's importlib mode leaves sys.path alone, and the tests share struck_run.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def problems(tmp_path_factory) -> Path:
    """Sixty problems of one kind, each with a text of its own, as JSON lines."""
    from struck_run import SLOW_INPUTS

    from warpsmith.rollout.generator import generate

    problem = generate(seed=0, count=1, levels=(1,))[0]
    text = "import time\n" + problem.source.replace("def get_inputs():\n", SLOW_INPUTS)
    rows = [{"code": f"{text}# {number}\n", "name": f"slow_{number}", "level": 1} for number in range(60)]
    path = tmp_path_factory.mktemp("problems") / "slow.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="session")
def policy(problems: Path, tmp_path_factory) -> Path:
    """A tiny decoder that has learnt the problems' answer almost by heart."""
    from warpsmith.policy.tiny import build_tiny
    from warpsmith.rollout.generator import generate
    from warpsmith.trainer.data.generated import Repairs, sft_examples

    known = generate(seed=0, count=60, levels=(1,))
    chats = sft_examples(known, 0, "compact", repairs=Repairs(0.0))
    folder = build_tiny(
        tmp_path_factory.mktemp("policy") / "untrained",
        [message["content"] for chat in chats for message in chat],
        vocab_size=600, layers=2, hidden=64, heads=2, kv_heads=1,
    )  # fmt: skip
    return _imitating(folder, chats[0], folder.with_name("policy"))


def _imitating(folder: Path, chat: list[dict[str, str]], out: Path) -> Path:
    """Train until the answer's tokens are likely, not certain: samples are to differ."""
    import torch

    from warpsmith.policy.loading import load_policy

    policy = load_policy(folder)
    ids, mask = policy.chat.loss_mask(chat)
    ids_BT = torch.tensor([ids])
    labels_BT = torch.where(torch.tensor([mask]).bool(), ids_BT, -100)
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=3e-3)
    policy.model.train()
    for _ in range(300):
        loss = policy.model(input_ids=ids_BT, labels=labels_BT).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < 0.012:
            break
    return policy.save(out)
