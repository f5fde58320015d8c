"""A check of the judge that no test has seen to fail is named, and CI fails."""

import sys
from pathlib import Path

import pytest

from benchmarks import checks_seen


def test_what_nobody_has_noted_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = checks_seen.checks()
    *seen, last = there
    noted = [f"{checks_seen.JUDGE / check.path}\t{check.last}" for check in seen]
    (tmp_path / "1").write_text("\n".join(noted[::2]))
    (tmp_path / "2").write_text("\n".join(noted[1::2]))
    monkeypatch.setattr(sys, "argv", ["checks_seen", "--noted", str(tmp_path)])
    with pytest.raises(SystemExit, match="1"):
        checks_seen.main()
    said = f"{len(seen)} of {len(there)} checks of the judge were seen to fail\n"
    assert capsys.readouterr().out == f"{said}never seen: {last.path}:{last.first} {last.what}\n"

    (tmp_path / "3").write_text(f"{checks_seen.JUDGE / last.path}\t{last.first}\n")
    with pytest.raises(SystemExit, match="0"):
        checks_seen.main()
    assert capsys.readouterr().out.strip() == said.strip().replace(f"{len(seen)} of", f"{len(there)} of")
