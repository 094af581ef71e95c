"""Has verl's own reward manager score a response."""

import asyncio
from pathlib import Path

import numpy as np
import torch
from omegaconf import OmegaConf
from transformers import AutoTokenizer
from verl import DataProto
from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager
from verl.trainer.ppo.reward import get_custom_reward_fn

from warpsmith.evaluator.datasets.kernelbench import load_problems
from warpsmith.evaluator.integrations.verl import rows

function = {"path": "pkg://warpsmith.evaluator.integrations.verl", "name": "compute_score", "reward_kwargs": {}}
config = OmegaConf.create({"reward": {"custom_reward_function": function}})
tokenizer = AutoTokenizer.from_pretrained("./model")
row = rows(load_problems("problems"))[0]
written = Path("generations/level_1_problem_1_sample_0_kernel.py").read_text()
ids = tokenizer(f"```python\n{written}\n```", return_tensors="pt").input_ids
columns = {name: np.array([value], dtype=object) for name, value in row.items() if name != "prompt"}
data = {"responses": ids, "attention_mask": torch.ones_like(ids), **columns}


async def judge():
    manager = NaiveRewardManager(config, tokenizer, get_custom_reward_fn(config))
    return await manager.run_single(DataProto.from_single_dict(data))


result = asyncio.run(judge())
print(result["reward_score"], result["reward_extra_info"]["status"])
