"""Values that are kept in little memory: what was unused for longest makes room, by number and by bytes."""

from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.ipc.compressed_store import ENTRY_BYTES, PackedStore, pack, unpack

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=20) | st.binary(max_size=200),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_a_value_comes_back_as_it_was(value):
    assert unpack(pack(value)) == value


def test_code_takes_less_than_it_did():
    code = b"".join(bytes([number % 7, 0, 0, 0]) for number in range(4096))
    assert len(pack({"cubin": code})) < len(code) // 3


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 400))), st.integers(0, 5), st.integers(0, 2000))
def test_it_holds_what_a_list_of_the_last_used_would(asked, entries, size):
    store, known = PackedStore(entries, size), OrderedDict()
    for number, length in asked:
        key = bytes([number])
        assert store.get(key) == known.get(key)
        if key in known:
            known.move_to_end(key)
            continue
        store.put(key, bytes(length))
        if ENTRY_BYTES + length <= size:
            known[key] = bytes(length)
        while known and (len(known) > entries or sum(ENTRY_BYTES + len(one) for one in known.values()) > size):
            known.popitem(last=False)
        assert len(store) == len(known)
        assert store.bytes == sum(ENTRY_BYTES + len(one) for one in known.values())


def test_what_alone_is_too_large_is_not_kept():
    store = PackedStore(8, ENTRY_BYTES + 10)
    store.put(b"small", bytes(10))
    store.put(b"large", bytes(11))
    assert store.get(b"large") is None
    assert store.get(b"small") == bytes(10), "and nothing makes room for it"
    assert (store.bytes, len(store)) == (ENTRY_BYTES + 10, 1)


@pytest.mark.parametrize("value", [b"", [], {}, 0, False])
def test_an_empty_value_is_one(value):
    store = PackedStore(1, 1 << 20)
    store.put(b"key", pack(value))
    kept = store.get(b"key")
    assert kept
    assert unpack(kept) == value
