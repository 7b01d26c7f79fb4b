"""The words that start a program: what is found, and what is refused before anything starts."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest

from ringtree.runtime.launch.launch import run
from ringtree.runtime.launch.program import SAFE_PATH, resolve


def test_modules_and_executables_run_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["platform", "--terse"], 1, module=True) == 0
    assert run(["sh", "-c", "echo $RINGTREE_RANK of $RINGTREE_WORLD_SIZE"], 2) == 0
    out = capsys.readouterr().out
    assert "[0] Linux" in out
    assert "[1] 1 of 2" in out


@pytest.mark.skipif(not SAFE_PATH, reason="Python 3.10 imports from the current folder first")
def test_ringtrees_own_command_runs_nothing_of_the_current_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "argparse.py").write_text("print('not the library's')")
    monkeypatch.chdir(tmp_path)
    assert run(["ringtree.cli", "algorithms"], 1, module=True) == 0
    assert "two_shot" in (found := capsys.readouterr().out) and "not the library's" not in found
    (tmp_path / "own.py").write_text("import beside")
    (tmp_path / "beside.py").write_text("print('beside')")
    assert run(["own"], 1, module=True) == 0
    assert capsys.readouterr().out == "[0] beside\n"


@pytest.mark.parametrize(
    ("command", "ranks", "module", "expected"),
    [
        (["true"], 0, False, "0 ranks: expected 1 to 4096"),
        ([], 2, False, "no program to run"),
        ([""], 2, False, "the program's name is empty"),
        (["nowhere.py"], 2, False, "no such program: nowhere.py"),
        (["no-such-program"], 2, False, "no such program: no-such-program"),
        (["no.such.module"], 2, True, "no module 'no.such.module' to run"),
    ],
)
def test_commands_that_cannot_run_are_refused_before_anything_starts(
    command: list[str], ranks: int, module: bool, expected: str
) -> None:
    with pytest.raises(ValueError, match=expected):
        run(command, ranks, module=module)


def test_a_module_runs_in_a_folder_that_was_removed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "removed").mkdir()
    monkeypatch.chdir(tmp_path / "removed")
    (tmp_path / "removed").rmdir()
    assert run(["this"], 1, module=True) == 0
    assert "The Zen of Python" in capfd.readouterr().out
    with pytest.raises(ValueError, match=r"no module .* to run: it is not installed"):
        run(["no.such.module"], 1, module=True)


def test_a_file_that_is_not_executable_is_named(tmp_path: Path) -> None:
    file = tmp_path / "data.txt"
    file.write_text("x")
    with pytest.raises(ValueError, match=r"data\.txt is not executable; expected a Python file"):
        resolve([str(file)], module=False)
    with pytest.raises(ValueError, match=r"is a folder without __main__\.py; expected a Python file"):
        resolve([str(tmp_path)], module=False)


def test_folders_and_archives_run_as_python_runs_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "__main__.py").write_text("import sys\nprint(sys.argv[1])\n")
    with ZipFile(tmp_path / "program.pyz", "w") as archive:
        archive.write(tmp_path / "folder" / "__main__.py", "__main__.py")
    assert run([str(tmp_path / "folder"), "x"], 1) == run([str(tmp_path / "program.pyz"), "y"], 1) == 0
    assert capsys.readouterr().out == "[0] x\n[0] y\n"


def test_a_script_whose_interpreter_is_missing_is_named(tmp_path: Path) -> None:
    file = tmp_path / "script.sh"
    file.write_text("#!/no/such/interpreter\n")
    file.chmod(0o755)
    with pytest.raises(ValueError, match=r"script\.sh: its interpreter .* is not there"):
        run([str(file)], 1)
