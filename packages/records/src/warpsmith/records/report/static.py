"""write_report: one self-contained HTML page about a run, to read in a browser or send to others."""

import base64
import gzip
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa

from warpsmith.records.folders import write_file
from warpsmith.records.follower import Follower
from warpsmith.records.parts import check_grouping, parts_of
from warpsmith.records.reader import RunReader
from warpsmith.records.report import assets, columns
from warpsmith.records.report.details import Details, shared_texts
from warpsmith.records.report.errors import ReportError
from warpsmith.records.report.overview import overview

T = TypeVar("T")

MOST_BYTES: Final = 20_000_000
_BLOCK_TRAJECTORIES: Final = 24
_READ_TOKENS: Final = 1_000_000
"""Tokens of trajectories that are read at once: few passes, since each one goes through most batches of the records,
and bounded memory."""
_PAGE_BYTES: Final = 300_000
"""Room for what is not counted while texts are chosen: markup and the overview."""
_INDEX_BYTES: Final = 8
"""Room for the compressed place of a turn's texts."""

NOT_SHOWN: Final = ("place", "row", "group", "num_turns")


@dataclass(frozen=True)
class Reading:
    """Trajectories of one part to read, by key, and why they were chosen."""

    part: str
    heading: str
    keys: list[str]


def write_report(
    reader: RunReader, out: Path, *, trajectories: int = 5, most_bytes: int = MOST_BYTES, by: str | None = None
) -> None:
    """Write the run's report to `out`.

    Args:
        trajectories: how many to put first per part and kind (highest return, most improved, latest not solved,
            random); texts of others follow while there is room. 0 leaves out all texts.
        most_bytes: how large the file may become.
        by: a column of `parts.GROUPINGS` by which the page shows the figures too.

    Raises:
        ReportError: plotly is not installed, a file next to the records does not have the form in docs/records.md, or
            the figures alone exceed `most_bytes`.
        UsageError: `by` is not such a column.
        SegmentError: damaged records, if the reader raises.
        OutputError: `out` cannot be written.
    """
    check_grouping(by)
    charts, application = assets.plotly(), assets.script()
    follower = Follower(reader)
    tables = {"turns": wire_turns(follower.turns), "steps": columns.flat_steps(follower.steps)}
    entries = {
        f"{name}-{number}": packed(chunk.data)
        for name, table in tables.items()
        for number, chunk in enumerate(columns.chunks(table))
    }
    entries["plotly"] = _packed_once(charts.encode())
    chosen = readings(follower.turns, trajectories)
    spent = sum(map(len, (*entries.values(), application))) + _PAGE_BYTES + _INDEX_BYTES * follower.turns.num_rows
    _refuse_if_over(spent, most_bytes)
    blocks, index = _texts(follower, chosen, most_bytes - spent) if trajectories else ([], {})
    about = overview(follower, by)
    about["readings"] = [vars(reading) for reading in chosen]
    about["texts"] = len(index)
    entries |= {f"block-{number}": block for number, block in enumerate(blocks)}
    entries["manifest"] = packed(json.dumps({"overview": about, "index": index}).encode())
    write_file(out, _page(about, application, charts, entries))


def packed(data: bytes) -> str:
    """Compress and encode for an element of the page; the same bytes each time."""
    return base64.b64encode(gzip.compress(data, 6, mtime=0)).decode()


# plotly's script is the same for every report and the largest part of a small one.
_packed_once = lru_cache(maxsize=1)(packed)


def wire_turns(turns: pa.Table) -> pa.Table:
    """Return the columns of `Follower.turns` that a page uses; all but times as 32-bit numbers."""
    found = turns.drop_columns(list(NOT_SHOWN))
    wide = {"started"}
    narrow = [
        pa.field(field.name, pa.float32()) if pa.types.is_float64(field.type) and field.name not in wide else field
        for field in found.schema
    ]
    return found.cast(pa.schema(narrow))


def readings(turns: pa.Table, count: int) -> list[Reading]:
    """Choose trajectories to read: per part the best, most improved, latest not solved, and random, each once.

    Trajectories of one problem are similar, so each kind has as many problems as possible.
    """
    found: list[Reading] = []
    shown: set[str] = set()
    for part in parts_of(turns) if count else []:
        everyone = _trajectories(part.of(turns))
        improved = [t for t in everyone if t["improvement"] > 0]
        kinds = {
            "highest return": sorted(everyone, key=lambda t: t["return"], reverse=True),
            "most improved": sorted(improved, key=lambda t: t["improvement"], reverse=True),
            "latest not solved": [t for t in reversed(everyone) if not t["solved"]],
            # The same ones each time the report is made.
            "random": random.Random(0).sample(everyone, len(everyone)),
        }
        for heading, kind in kinds.items():
            fresh = _of_many_problems([t for t in kind if t["key"] not in shown], count)
            shown.update(fresh)
            found += [Reading(part.label, heading, fresh)] if fresh else []
    return found


def _of_many_problems(ordered: Sequence[dict[str, Any]], count: int) -> list[str]:
    """Return the first `count` keys, one of each problem before a second one of any."""
    seen: dict[str, int] = {}
    ranked = []
    for t in ordered:
        seen[t["problem"]] = seen.get(t["problem"], 0) + 1
        ranked.append((seen[t["problem"]], t["key"]))
    ranked.sort(key=lambda entry: entry[0])
    return [key for _, key in ranked[:count]]


def _trajectories(turns: pa.Table) -> list[dict[str, Any]]:
    rows = (
        turns.filter(turns.column("valid"))
        .select(["key", "problem", "turn", "reward", "return", "correct"])
        .to_pylist()
    )
    by_key: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_key.setdefault(row["key"], []).append(row)
    return [_trajectory(key, sorted(found, key=lambda row: row["turn"])) for key, found in by_key.items()]


def _trajectory(key: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    # Unknown if the first turn is invalid: a later turn's return is not the trajectory's.
    aggregated = rows[0]["return"] if rows[0]["turn"] == 0 else None
    return {
        "key": key,
        "problem": rows[0]["problem"],
        "return": float("-inf") if aggregated is None else aggregated,
        "improvement": rows[-1]["reward"] - rows[0]["reward"],
        "solved": any(row["correct"] for row in rows),
    }


def _texts(follower: Follower, chosen: Sequence[Reading], room: int) -> tuple[list[str], dict[str, int]]:
    """Pack trajectories, the chosen ones first, until `room` characters are used; return blocks and block by key."""
    details, blocks, index = Details(follower), list[str](), dict[str, int]()
    first = [key for reading in chosen for key in reading.keys]
    for keys in (first, *_at_once(follower.turns, _others(follower.turns, first))):
        # Similar texts share a block, where each is stored once.
        read = sorted(details.trajectories(keys), key=lambda entry: (entry["problem"], entry["key"]))
        for group in _batches(read, _BLOCK_TRAJECTORIES):
            block = packed(json.dumps(shared_texts(group), separators=(",", ":")).encode())
            if len(block) > room:
                return blocks, index
            room -= len(block)
            index |= {entry["key"]: len(blocks) for entry in group}
            blocks.append(block)
    return blocks, index


def _others(turns: pa.Table, first: Sequence[str]) -> list[str]:
    others = sorted(set(turns.column("key").to_pylist()) - set(first))
    random.Random(0).shuffle(others)
    return others


def _at_once(turns: pa.Table, keys: Sequence[str]) -> Iterator[Sequence[str]]:
    """Split keys, in their order, so that the trajectories of each part have `_READ_TOKENS` tokens or little more."""
    sums = turns.group_by("key").aggregate([("prompt_tokens", "sum"), ("tokens", "sum")]).to_pylist()
    tokens = {row["key"]: row["prompt_tokens_sum"] + row["tokens_sum"] for row in sums}
    begin, held = 0, 0
    for end, key in enumerate(keys, 1):
        held += tokens[key]
        if held >= _READ_TOKENS or end == len(keys):
            yield keys[begin:end]
            begin, held = end, 0


def _batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _refuse_if_over(spent: int, most: int) -> None:
    if spent > most:
        raise ReportError(
            f"The figures of this run alone need {spent / 1e6:.1f} MB; the report may have {most / 1e6:.1f} MB.",
            "Look at the run with `warpsmith-records serve`.",
        )


def _page(about: dict[str, Any], application: str, charts: str, entries: dict[str, str]) -> str:
    allowed = f"script-src {assets.content_hash(application)} {assets.content_hash(charts)}"
    policy = f"default-src 'none'; {allowed}; style-src 'unsafe-inline'; img-src data: blob:"
    data = "\n".join(f'<script type="text/plain" id="data-{key}">{value}</script>' for key, value in entries.items())
    return assets.page(
        title=f"{about['name']} · Warpsmith report",
        first=about["headline"]["text"],
        policy=policy,
        head=f"<style>\n{assets.style()}</style>",
        body=f"{data}\n<script>{application}</script>",
    )
