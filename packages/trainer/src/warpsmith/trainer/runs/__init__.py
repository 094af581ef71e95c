"""The two kinds of run, and what they share: GRPO, SFT, control, policy updates, signals."""
