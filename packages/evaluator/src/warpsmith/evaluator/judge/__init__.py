"""The trusted process. `pipeline` is the order of judgement: load, record, then replays."""
