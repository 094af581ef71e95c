"""Flags that a candidate may set, and those that it may not."""

import pytest

from warpsmith.evaluator.languages.cuda_cpp.flags import FlagError, checked


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([], []),
        ([""], []),
        (["-O3", "--use_fast_math", "-lineinfo"], ["-O3", "--use_fast_math"]),
        (["-O3 --use_fast_math"], ["-O3", "--use_fast_math"]),
        (["-std=c++17", "-DBLOCK=128", "-U__CUDA_NO_HALF_OPERATORS__"],) * 2,
        (["-D", "SIZE=4", "--maxrregcount", "64"], ["-DSIZE=4", "--maxrregcount=64"]),
        (["-arch=sm_80", "-gencode", "arch=compute_90,code=sm_90", "-gencode=arch=compute_70,code=sm_70"], []),
        (["-Xptxas", "-v,-dlcm=ca", "-Xptxas=-O3"], ["-Xptxas", "-dlcm=ca", "-Xptxas", "-O3"]),
        (["-Xcompiler", "-O3,-fPIC", "--compiler-options", "'-fPIC'"], []),
        (["--expt-relaxed-constexpr", "--extended-lambda"],) * 2,
        (["-rdc=false", "--relocatable-device-code=false"], []),
        (["-lcudart", "-ldl", "-lm"], []),
    ],
)
def test_flags_that_tune_code_are_kept_and_those_without_effect_are_left_out(given, kept):
    assert checked(given, "extra_cuda_cflags") == kept


@pytest.mark.parametrize(
    "flag",
    [
        "-I/etc",
        "-include/etc/passwd",
        "--compiler-bindir=/tmp",
        "-ccbin=/tmp",
        "-o/tmp/x",
        "-Xcompiler -fplugin=/tmp/x.so",
        "-Xcompiler=-O3,-B/tmp",
        "-Xptxas -o,/tmp/x",
        "-Xlinker -T/tmp/x",
        "-rdc=true",
        "-lcublas",
        "-L/tmp",
        "@/tmp/flags",
        "--options-file=/tmp/flags",
        "--run",
        "-DX=$(id)",
        "-D_X=`id`",
        "--keep-dir=/tmp",
        "-x=c",
        "-O9",
        "-std=c++26",
        "\n-I/etc",
    ],
)
def test_other_flags_are_refused_by_name(flag):
    with pytest.raises(FlagError, match=r"extra_cuda_cflags has the flag .* not allowed"):
        checked(["-O3", flag], "extra_cuda_cflags")
