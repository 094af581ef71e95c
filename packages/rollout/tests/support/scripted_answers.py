"""Answers of a scripted endpoint, and the verdicts that they ask for."""

from warpsmith.evaluator.verdict import Verdict


def answer(word, text=""):
    """Return an answer whose kernel a scripted evaluator judges by its word: `correct`, `wrong`, `fast 1.5`, ..."""
    return f"Here it is.\n```python\nclass ModelNew:\n    # {word}\n    pass  # {text}\n```\n"


def verdict_of(kernel):
    """Return the verdict that a kernel of `answer` asks for."""
    words = kernel.split("# ")[1].split()
    match words[0]:
        case "correct":
            return Verdict("correct", True, True, trials=3)
        case "fast":
            speedup = float(words[1])
            return Verdict(
                "correct", True, True, speedup=speedup, runtime_ms=1 / speedup, reference_ms=1.0, timing_tier="graph",
                device="H", speedups={"eager": speedup, "compile": speedup / 2},
                references_ms={"eager": 1.0, "compile": 0.5}, trials=3,
            )  # fmt: skip
        case "wrong":
            return Verdict("incorrect", True, False, mismatched_fraction=0.5, error_message="Half of it is wrong.")
        case "broken":
            return Verdict("compile_error", False, False, error_message="It does not compile.")
        case "foreign":
            message = "The candidate is written in CUDA C++, and this evaluator judges Triton."
            return Verdict("compile_error", False, False, error_message=message, flags=("other_language",))
        case "invalid":
            return Verdict("invalid", False, False, error_message="The evaluator failed.")
    raise AssertionError(kernel)
