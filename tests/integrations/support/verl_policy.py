"""Writes ./policy: a model that knows the example's kernels, the right and the wrong ones alike, so that scores differ.

verl_policy.py             a small Qwen3 with a tokenizer of its own
verl_policy.py MODEL       a copy of the model MODEL, taught the same
"""

import math
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from warpsmith.evaluator.datasets.kernelbench import load_problems
from warpsmith.evaluator.integrations.verl import rows

CLOSE = 0.001
"""Teaching ends when the loss is this close to its least, at which a coin's throw decides which kernel comes."""
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for one in messages %}<|im_start|>{{ one['role'] }}\n{{ one['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def conversations():
    """Return pairs of a prompt and an answer, two for each problem."""
    pairs, problems = [], load_problems("problems")
    for problem, row in zip(problems, rows(problems), strict=True):
        level, number = problem.level, problem.name.partition("_")[0]
        for sample in (0, 1):
            path = Path(f"generations/level_{level}_problem_{number}_sample_{sample}_kernel.py")
            pairs.append((row["prompt"], f"```python\n{path.read_text()}\n```"))
    return pairs


def small(pairs):
    """Return a small model without knowledge, and a tokenizer made for the pairs."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1000, special_tokens=SPECIAL, initial_alphabet=alphabet)
    texts = [message["content"] for prompt, _ in pairs for message in prompt] + [answer for _, answer in pairs]
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", additional_special_tokens=SPECIAL
    )
    fast.chat_template = TEMPLATE
    config = Qwen3Config(
        vocab_size=len(fast),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=4096,
        eos_token_id=fast.eos_token_id,
        pad_token_id=fast.pad_token_id,
    )
    torch.manual_seed(0)
    return Qwen3ForCausalLM(config), fast


def batch(tokenizer, pairs, device):
    """Return ids, mask and labels; what is not of an answer has the label -100."""
    asked = [tokenizer.apply_chat_template(one, add_generation_prompt=True, tokenize=False) for one, _ in pairs]
    before = [tokenizer(text, add_special_tokens=False).input_ids for text in asked]
    after = [tokenizer(answer + "<|im_end|>", add_special_tokens=False).input_ids for _, answer in pairs]
    longest = max(len(a) + len(b) for a, b in zip(before, after, strict=True))
    ids = torch.full((len(pairs), longest), tokenizer.pad_token_id)
    mask, labels = torch.zeros_like(ids), torch.full_like(ids, -100)
    for row, (head, tail) in enumerate(zip(before, after, strict=True)):
        length = len(head) + len(tail)
        ids[row, :length], mask[row, :length] = torch.tensor(head + tail), 1
        labels[row, len(head) : length] = torch.tensor(tail)
    return {"input_ids": ids.to(device), "attention_mask": mask.to(device), "labels": labels.to(device)}


def teach(model, tokenizer, pairs, rate, steps):
    """Train a model on the pairs until it writes each with about the same probability."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model.to(device).train()
    inputs = batch(tokenizer, pairs, device)
    answers = (inputs["labels"] != -100).sum().item()
    least = len(pairs) * math.log(2.0) / answers
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    losses = [math.inf]
    while losses[-1] > least + CLOSE and len(losses) <= steps:
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = model(**inputs).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    print(f"taught {len(losses) - 1} steps: loss {losses[-1]:.4f}, least {least:.4f}")


def main():
    pairs = conversations()
    if len(sys.argv) > 1:
        tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
        model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32)
        teach(model, tokenizer, pairs, rate=1e-4, steps=120)
        model.to(torch.bfloat16)
    else:
        model, tokenizer = small(pairs)
        teach(model, tokenizer, pairs, rate=3e-3, steps=600)
    model.save_pretrained("policy")
    tokenizer.save_pretrained("policy")


if __name__ == "__main__":
    main()
