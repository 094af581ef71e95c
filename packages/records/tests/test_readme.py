import os
import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_readmes_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(code, os.fspath(README), "exec"), {})
    assert "'step': 0" in capsys.readouterr().out
