"""Which characters of a completion each token produced, by the vocabulary of the run's tokenizer."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

_WHERE: Final = ("tokenizer.json", "final_model/tokenizer.json", "policy/tokenizer.json")


def _byte_of_character() -> dict[str, int]:
    """The characters that byte-level BPE writes for bytes: printable ones for themselves, others from 256 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + place): byte for place, byte in enumerate(others)}


_BYTES: Final = _byte_of_character()


class Vocabulary:
    """Bytes of each token id.

    Args:
        tokens: token text by id, as the tokenizer's file has it.
        special: ids that produce no text.
    """

    def __init__(self, tokens: Mapping[int, str], special: frozenset[int]) -> None:
        self._tokens = tokens
        self._special = special

    def ends(self, ids: Sequence[int], text: str) -> list[int] | None:
        """Return where each token ends in `text`, in UTF-16 units; None if the tokens do not write that text."""
        wanted = text.encode("utf-8", errors="replace")
        ends, at = [], 0
        for token in ids:
            piece = self._piece(token)
            # Trailing special tokens may or may not be decoded, depending on the sampler.
            if wanted[at : at + len(piece)] != piece:
                if token not in self._special:
                    return None
                piece = b""
            at += len(piece)
            ends.append(at)
        return _in_utf16(wanted, ends) if at == len(wanted) else None

    def _piece(self, token: int) -> bytes:
        text = self._tokens.get(token, "")
        try:
            return bytes(_BYTES[character] for character in text)
        except KeyError:
            return text.encode()


def vocabulary_of(run_dir: Path, policy: str | None) -> Vocabulary | None:
    """Return the vocabulary of a run, or None if no tokenizer is found or it is not byte-level BPE.

    Args:
        run_dir: the run's directory; its own tokenizer counts first.
        policy: the policy's directory as the configuration names it.
    """
    folders = [run_dir / name for name in _WHERE] + ([Path(policy) / _WHERE[0]] if policy else [])
    for path in folders:
        try:
            return _vocabulary(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return None


def _vocabulary(found: Any) -> Vocabulary:
    added = found.get("added_tokens", [])
    tokens = {int(token): text for text, token in found["model"]["vocab"].items()}
    tokens |= {int(entry["id"]): entry["content"] for entry in added}
    return Vocabulary(tokens, frozenset(int(entry["id"]) for entry in added if entry.get("special")))


def _in_utf16(text: bytes, ends: Sequence[int]) -> list[int]:
    """Convert ends in UTF-8 bytes to UTF-16 units; inside a character, its start."""
    units, at, found = 0, 0, []
    for end in ends:
        while at < end:
            width = _width(text[at])
            if at + width > end:
                break
            units += 2 if width == 4 else 1
            at += width
        found.append(units)
    return found


def _width(first: int) -> int:
    return 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
