"""The algorithms once more, from their papers: one row and one token at a time, in double precision, without tensors.

A row is a dict of lists over its completion tokens: `new` (log-probabilities now), `old`, `sampler`, `reference`,
`entropy`; and its `reward`, `group`. Nothing here imports the objective. Losses are the negative of the objectives.
"""

from math import exp, log, sqrt
from typing import Any

Row = dict[str, Any]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def clamp(value: float, low: float, high: float) -> float:
    return max(low, min(value, high))


def groups_of(rows: list[Row]) -> list[list[Row]]:
    return [[row for row in rows if row["group"] == group] for group in sorted({row["group"] for row in rows})]


# Advantages ----------------------------------------------------------------------------------------------------------


def grouped_advantages(rows: list[Row], *, divide: bool) -> list[float]:
    """A_i = R_i - mean R, divided by the standard deviation for GRPO (2402.03300), not for Dr.GRPO (2503.20783)."""
    found = {}
    for group in groups_of(rows):
        rewards = [row["reward"] for row in group]
        centre = mean(rewards)
        deviation = sqrt(mean([(reward - centre) ** 2 for reward in rewards])) if divide else 1.0
        for row in group:
            found[id(row)] = (row["reward"] - centre) / deviation if deviation else 0.0
    return [found[id(row)] for row in rows]


def rloo_advantages(rows: list[Row]) -> list[float]:
    """R_i - 1/(k-1) sum over j != i of R_j (2402.14740, equation 6)."""
    found = []
    for row in rows:
        others = [other["reward"] for other in rows if other["group"] == row["group"] and other is not row]
        found.append(row["reward"] - mean(others))
    return found


def gae(scores: list[float], values: list[float], gamma: float, lam: float) -> list[float]:
    """The sum of 1506.02438, equation 16, written out; the value after the last turn is 0."""
    ahead = [*values[1:], 0.0]
    deltas = [s + gamma * v1 - v0 for s, v0, v1 in zip(scores, values, ahead, strict=True)]
    return [sum((gamma * lam) ** k * delta for k, delta in enumerate(deltas[t:])) for t in range(len(deltas))]


# Losses --------------------------------------------------------------------------------------------------------------


def ratios(row: Row) -> list[float]:
    return [exp(new - old) for new, old in zip(row["new"], row["old"], strict=True)]


def clipped(ratio: float, advantage: float, low: float, high: float) -> float:
    return min(ratio * advantage, clamp(ratio, 1 - low, 1 + high) * advantage)


def grpo(rows: list[Row]) -> float:
    """2402.03300, equation 3, without its divergence: mean over samples of the mean over their tokens."""
    total = 0.0
    for row, advantage in zip(rows, grouped_advantages(rows, divide=True), strict=True):
        total += mean([clipped(ratio, advantage, 0.2, 0.2) for ratio in ratios(row)])
    return -total / len(rows)


def dr_grpo(rows: list[Row], length: int) -> float:
    """2503.20783, figure 1 right, and its code's constant length in place of |o_i|."""
    total = 0.0
    for row, advantage in zip(rows, grouped_advantages(rows, divide=False), strict=True):
        total += sum(clipped(ratio, advantage, 0.2, 0.2) for ratio in ratios(row)) / length
    return -total / len(rows)


def dapo(rows: list[Row]) -> float:
    """2503.14476, equation 8: one mean over all tokens, the upper clip at 0.28."""
    total, tokens = 0.0, 0
    for row, advantage in zip(rows, grouped_advantages(rows, divide=True), strict=True):
        for ratio in ratios(row):
            total += clipped(ratio, advantage, 0.2, 0.28)
            tokens += 1
    return -total / tokens


def gspo(rows: list[Row]) -> float:
    """2507.18071, equations 5 and 7: one ratio a sequence, the length-normalised likelihood ratio."""
    total = 0.0
    for row, advantage in zip(rows, grouped_advantages(rows, divide=True), strict=True):
        likelihood = exp(sum(row["new"])) / exp(sum(row["old"]))
        total += clipped(likelihood ** (1 / len(row["new"])), advantage, 3e-4, 4e-4)
    return -total / len(rows)


def cispo(rows: list[Row]) -> float:
    """2506.13585, equation 4, with eps_high 2 and no lower bound; the weight is a constant to the gradient."""
    total, tokens = 0.0, 0
    for row, advantage in zip(rows, grouped_advantages(rows, divide=True), strict=True):
        for ratio, new, frozen in zip(ratios(row), row["new"], row["frozen"], strict=True):
            weight = ratio * exp(frozen - new)
            total += clamp(weight, 0.0, 3.0) * advantage * new
            tokens += 1
    return -total / tokens


def rloo(rows: list[Row], length: int) -> float:
    """2402.14740, equation 6, with importance weights a token; a constant length is a factor of the learning rate."""
    total = 0.0
    for row, advantage in zip(rows, rloo_advantages(rows), strict=True):
        total += sum(ratio * advantage for ratio in ratios(row)) / length
    return -total / len(rows)


def ppo(rows: list[Row], coefficient: float) -> float:
    """1707.06347, equations 7 and 9; each trajectory's turns by GAE, whitened over the batch, values by squares."""
    advantages, targets = ppo_credit(rows)
    centre = mean(advantages)
    deviation = sqrt(mean([(a - centre) ** 2 for a in advantages]))
    total, tokens, squares = 0.0, 0, 0.0
    for row, advantage, target in zip(rows, advantages, targets, strict=True):
        for ratio in ratios(row):
            total += clipped(ratio, (advantage - centre) / deviation, 0.2, 0.2)
            tokens += 1
        squares += 0.5 * (row["value"] - target) ** 2
    return -total / tokens + coefficient * squares / len(rows)


def ppo_credit(rows: list[Row]) -> tuple[list[float], list[float]]:
    """GAE of every row by its trajectory, with gamma 0.4 and lambda 0.95, and the value's target."""
    found = {}
    for trajectory in {row["trajectory"] for row in rows}:
        own = sorted((row for row in rows if row["trajectory"] == trajectory), key=lambda row: row["turn"])
        values = [row["old_value"] for row in own]
        for row, advantage in zip(own, gae([row["reward"] for row in own], values, 0.4, 0.95), strict=True):
            found[id(row)] = advantage
    advantages = [found[id(row)] for row in rows]
    return advantages, [a + row["old_value"] for a, row in zip(advantages, rows, strict=True)]


# Parts ---------------------------------------------------------------------------------------------------------------


def dual_clipped(ratio: float, advantage: float, low: float, high: float, dual: float) -> float:
    """1912.09729, equation 5."""
    inner = clipped(ratio, advantage, low, high)
    return max(inner, dual * advantage) if advantage < 0 else inner


def overlong(length: int, limit: int, cache: float) -> float:
    """2503.14476, equation 13: a reward from 0 down to -1."""
    if length <= limit - cache:
        return 0.0
    if length <= limit:
        return ((limit - cache) - length) / cache
    return -1.0


def divergence(kind: str, new: float, other: float) -> float:
    """Schulman 2020 with r = pi_other / pi of a token from pi: -log r, (log r)^2 / 2, (r - 1) - log r."""
    r = exp(other - new)
    return {"k1": -log(r), "k2": 0.5 * log(r) ** 2, "k3": (r - 1) - log(r)}[kind]


def importance_weights(row: Row, level: str) -> list[float]:
    """pi_old / pi_sampler of each token, by token, of the whole sequence, or of its geometric mean."""
    tokens = [exp(old - sampler) for old, sampler in zip(row["old"], row["sampler"], strict=True)]
    if level == "token":
        return tokens
    product = 1.0
    for weight in tokens:
        product *= weight
    whole = product if level == "sequence" else product ** (1 / len(tokens))
    return [whole] * len(tokens)


def corrected(row: Row, *, kind: str, level: str, low: float, high: float, veto: float) -> list[float]:
    """Truncated: min(w, high). Masked: w within [low, high], else 0. Veto: 0 for a row with a token below it."""
    weights = importance_weights(row, level)
    if any(weight < veto for weight in importance_weights(row, "token")):
        return [0.0] * len(weights)
    if kind == "truncated":
        return [min(weight, high) for weight in weights]
    return [weight if low <= weight <= high else 0.0 for weight in weights]
