"""DeepSpeed's own configuration, created from `[zero]` and `[optimizer]`. Imports no torch."""

from typing import Any

from warpsmith.trainer.config.sections import OptimizerSection, ZeroSection


def deepspeed_config(zero: ZeroSection, optimizer: OptimizerSection, dtype: str, world: int) -> dict[str, Any]:
    """Return the dictionary for `deepspeed.initialize`.

    This package controls accumulation: the loss is already normalised over the whole batch, and the number of
    micro-batches varies. So DeepSpeed is given one micro-batch per step and scales nothing.
    """
    bf16 = dtype == "bfloat16"
    return {
        "train_batch_size": world,
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": optimizer.max_grad_norm,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 2**31,
        "wall_clock_breakdown": False,
        "bf16": {"enabled": bf16},
        # Many small gradients summed in bf16 lose their low bits.
        "data_types": {"grad_accum_dtype": "fp32"} if bf16 else {},
        "zero_optimization": _zero(zero),
    }


def _zero(zero: ZeroSection) -> dict[str, Any]:
    values: dict[str, Any] = {
        "stage": zero.stage,
        "reduce_bucket_size": zero.bucket_elements,
        "allgather_bucket_size": zero.bucket_elements,
        "contiguous_gradients": True,
        "overlap_comm": False,
    }
    if zero.stage == 3:
        values |= {
            "stage3_prefetch_bucket_size": zero.bucket_elements,
            "stage3_param_persistence_threshold": 100_000,
            "stage3_max_live_parameters": 20 * zero.bucket_elements,
        }
    if zero.offload_optimizer:
        values["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    if zero.offload_parameters:
        values["offload_param"] = {"device": "cpu", "pin_memory": True}
    return values
