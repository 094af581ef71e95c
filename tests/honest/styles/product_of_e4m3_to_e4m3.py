import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(40, 96))

    def forward(self, x):
        y = x.float() @ self.weight.t() * 0.5
        return y.clamp(-440, 440).to(torch.float8_e4m3fn)


def get_inputs():
    return [torch.randn(24, 96).to(torch.float8_e4m3fn)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def scaled_mm(x_ptr, w_ptr, y_ptr, M, N, K, alpha, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k0 in range(0, K, BK):
        rk = k0 + tl.arange(0, BK)
        a = tl.load(x_ptr + rm[:, None] * K + rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
        b = tl.load(w_ptr + rn[None, :] * K + rk[:, None], mask=(rn[None, :] < N) & (rk[:, None] < K), other=0.0)
        acc += tl.dot(a.to(tl.float32), b, input_precision="ieee")
    y = tl.clamp(acc * alpha, -440.0, 440.0).to(tl.float8e4nv)
    tl.store(y_ptr + rm[:, None] * N + rn[None, :], y, mask=(rm[:, None] < M) & (rn[None, :] < N))


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(40, 96))

    def forward(self, x):
        x = x.contiguous()
        (M, K), N = x.shape, self.weight.shape[0]
        y = torch.empty((M, N), dtype=torch.float8_e4m3fn, device=x.device)
        grid = (triton.cdiv(M, 16), triton.cdiv(N, 16))
        scaled_mm[grid](x, self.weight, y, M, N, K, 0.5, BM=16, BN=16, BK=32)
        return y
