"""Mutate a run's files in many ways and read them in every way; run as a process, so that a crash of pyarrow shows.

Usage: fuzz_worker.py RUN SCRATCH SEED COUNT; prints how many mutations gave an error and how many lost rows.
"""

import json
import random
import shutil
import sys
from pathlib import Path

from warpsmith.records import RunReader
from warpsmith.records.errors import WarpsmithError
from warpsmith.records.schema import TABLES


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Bits flipped, a piece cut out, repeated, zeroed or exchanged, the end cut off, or another file altogether."""
    body = bytearray(data)
    at, length = chance.randrange(len(body)), chance.randrange(1, 200)
    match chance.randrange(8):
        case 0 | 1 | 2:
            for _ in range(chance.choice((1, 1, 1, 8, 64))):
                body[chance.randrange(len(body))] ^= 1 << chance.randrange(8)
        case 3:
            del body[at:]
        case 4:
            del body[at : at + length]
        case 5:
            body[at:at] = body[at : at + length]
        case 6:
            body[at : at + length] = bytes(length)
        case 7:
            body[at : at + length] = chance.randbytes(length)
    return bytes(body)


def check(run_dir: Path, whole: dict[str, list]) -> tuple[bool, bool]:
    """Read strictly, skipping, and verify; every batch found must be one that was written, in order."""
    failed = lost = False
    for table, batches in whole.items():
        found = list(RunReader(run_dir, on_damage="skip").batches(table))
        assert [batch for batch in batches if batch in found] == found, (run_dir, table)
        lost |= len(found) < len(batches)
        try:
            strict = list(RunReader(run_dir).batches(table))
        except WarpsmithError:
            failed = True
        else:
            assert strict == found, (run_dir, table)
    RunReader(run_dir).verify()
    return failed, lost


def main() -> None:
    original, scratch, seed, count = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    chance = random.Random(seed)
    whole = {table: list(RunReader(original).batches(table)) for table in TABLES}
    assert all(len(batches) > 1 for batches in whole.values())
    files = sorted(path.relative_to(original) for path in original.rglob("*") if path.is_file())
    shutil.copytree(original, scratch)
    errors = losses = 0
    for _ in range(count):
        struck = chance.sample(files, chance.choice((1, 1, 1, 2)))
        for path in struck:
            (scratch / path).write_bytes(mutated((original / path).read_bytes(), chance))
        failed, lost = check(scratch, whole)
        errors, losses = errors + failed, losses + lost
        for path in struck:
            shutil.copy(original / path, scratch / path)
    print(json.dumps({"mutations": count, "errors": errors, "losses": losses}))


if __name__ == "__main__":
    main()
