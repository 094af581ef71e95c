"""What an optimizer refuses before a compiler is started."""

import pytest
from torch import nn

from warpsmith.trainer.config.sections import OptimizerSection
from warpsmith.trainer.engine.optimizer import _check_architectures, make_optimizer
from warpsmith.trainer.errors import ConfigError


def test_an_architecture_that_deepspeed_cannot_read_is_named(monkeypatch):
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "8.0;9.0a 10.0f+PTX")
    with pytest.raises(ConfigError, match=r"cannot read 9\.0a, 10\.0f\+PTX") as caught:
        make_optimizer(nn.Linear(2, 2), OptimizerSection(implementation="fused"))
    assert "TORCH_CUDA_ARCH_LIST=9.0" in caught.value.remedy


@pytest.mark.parametrize("listed", ["", "9.0", "8.0;8.6;9.0+PTX", " 8.0 9.0 "])
def test_plain_architectures_are_left_to_it(listed):
    _check_architectures(listed)
