import codecs
import io
import os

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from warpsmith.records.errors import WarpsmithError
from warpsmith.records.text import (
    TextError,
    decode,
    decode_anyhow,
    files_in,
    is_leftover,
    read_json,
    read_text,
    stream_lines,
)

CODECS = {
    "utf-8": b"",
    "utf-8-sig": b"",
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-32-le": codecs.BOM_UTF32_LE,
    "utf-32-be": codecs.BOM_UTF32_BE,
}
# A mark is no text, and a NUL is refused.
TEXTS = st.text(st.characters(exclude_characters="\0\r\ufeff", exclude_categories=["Cs"]))


@given(TEXTS, st.sampled_from(sorted(CODECS)), st.sampled_from(["\n", "\r\n", "\r"]))
def test_the_same_text_in_any_encoding_and_with_any_line_ends(text, codec, newline):
    data = CODECS[codec] + text.replace("\n", newline).encode(codec)
    assert decode(data, "it") == text
    assert decode_anyhow(data).replace("\r\n", "\n").replace("\r", "\n") == text


@given(st.binary())
@example(b"\xff\xfe\x00")
@example(b"\xff\xfe\x00\xd8")
@example("class Model".encode("utf-16-le"))
@example("naïve".encode("latin-1"))
def test_bytes_are_text_or_named(data):
    try:
        text = decode(data, "it.py")
    except TextError as error:
        assert error.message.startswith("it.py is not ")
        assert error.remedy == "Save it as UTF-8."
    else:
        assert not {"\0", "\r"} & set(text)
        text.encode()
    assert isinstance(decode_anyhow(data), str)


@given(TEXTS, st.sampled_from(sorted(CODECS)))
def test_lines_are_streamed_as_utf_8(tmp_path_factory, text, codec):
    path = tmp_path_factory.getbasetemp() / "streamed"
    path.write_bytes(CODECS[codec] + text.encode(codec))
    assert b"".join(stream_lines(path)).decode() == text
    assert [line.decode() for line in stream_lines(path)] == io.StringIO(text, newline="\n").readlines()


def test_a_broken_end_of_utf_16_is_named(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(codecs.BOM_UTF16_LE + "{}\n".encode("utf-16-le") + b"{")
    with pytest.raises(TextError, match=r"rows.jsonl is not valid UTF-16-LE"):
        list(stream_lines(path))


class OwnError(WarpsmithError):
    pass


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "9" * 5_000, ""])
def test_json_that_is_none_is_named(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(OwnError, match=r"x.json is not JSON: .*\. Fix it\."):
        read_json(path, OwnError, remedy="Fix it.")


def test_json_is_read_with_a_mark(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"a": 1}', encoding="utf-16")
    assert read_json(path) == {"a": 1}


def test_what_cannot_be_opened_is_named_in_the_callers_words(tmp_path):
    for read in (read_text, lambda *given: list(stream_lines(*given))):
        with pytest.raises(OwnError, match=r"The recipe .*x.toml does not exist. Name one."):
            read(tmp_path / "x.toml", OwnError, "recipe", "Name one.")
        with pytest.raises(TextError, match=r"is a directory; a file was expected. Give the path of a file."):
            read(tmp_path)
    with pytest.raises(TextError, match="cannot be read: embedded null"):
        read_text("a\0b")


def test_the_line_that_is_no_utf_8_is_named(tmp_path):
    path = tmp_path / "x.toml"
    path.write_bytes(b"a = 1\nb = '\xe9'\n")
    with pytest.raises(OwnError, match=r"x.toml is not UTF-8 text: line 2 cannot be decoded \(byte 0xe9\)"):
        read_text(path, OwnError)


LEFT = ["._X.py", ".#X.py", "X.py~", "#X.py#", ".X.py.swp", "X.py.bak", ".ipynb_checkpoints", "__pycache__", "X.py.swp"]


@pytest.mark.parametrize("name", LEFT)
def test_leftovers_are_known_by_their_names(name):
    assert is_leftover(name)


@pytest.mark.parametrize("name", ["X.py", "1_X-checkpoint.py", "level1", "data.jsonl", "a.b.py", "~x.py", "x#.py"])
def test_ordinary_names_are_none(name):
    assert not is_leftover(name)


def test_files_are_found_without_leftovers(tmp_path):
    for name in ("b.py", "a.py", "sub/c.py", "._a.py", "a.py~", ".ipynb_checkpoints/a-checkpoint.py", "d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "folder.py").mkdir()
    os.symlink("nobody@nowhere.123", tmp_path / ".#b.py")
    assert [str(path.relative_to(tmp_path)) for path in files_in(tmp_path, {".py"})] == ["a.py", "b.py", "sub/c.py"]
    assert [path.name for path in files_in(tmp_path, {".py"}, recursive=False)] == ["a.py", "b.py"]


def test_a_hidden_parent_hides_nothing(tmp_path):
    folder = tmp_path / ".cache" / "data"
    folder.mkdir(parents=True)
    (folder / "a.py").write_text("")
    assert files_in(folder, {".py"}) == [folder / "a.py"]
