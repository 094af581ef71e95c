"""The demo: warm up a tiny policy by SFT, train it by multi-turn GRPO, compare before and after."""

from warpsmith.trainer.demo.run import OWN_GRPO, OWN_SFT, DemoSettings, new_directory, run_demo

__all__ = ["OWN_GRPO", "OWN_SFT", "DemoSettings", "new_directory", "run_demo"]
