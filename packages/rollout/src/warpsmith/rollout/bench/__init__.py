"""`warpsmith-rollout bench`: searches for kernels with a model behind an OpenAI-compatible endpoint, and scores them.

A search is one problem and one sample: a strategy plans rounds of attempts, each attempt is one request, one verdict
and one recorded turn. docs/model-bench.md describes it.
"""
