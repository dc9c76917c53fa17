"""Notebooks: they run, at small size here, what is committed is whole, and Colab's jax stays."""

import ast
import importlib
import importlib.util
import inspect
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parent.parent
OURS = ("curious_jax", "envs", "experiments")
spec = importlib.util.spec_from_file_location("prepare", ROOT / "notebooks" / "prepare.py")
prepare = importlib.util.module_from_spec(spec)
spec.loader.exec_module(prepare)


def sources(notebook, kind="code"):
    return [cell.source for cell in notebook.cells if cell.cell_type == kind]


def tagged(notebook, tag):
    (cell,) = [cell for cell in notebook.cells if tag in cell.metadata.get("tags", [])]
    return cell


def errors(notebook):
    return [output for cell in notebook.cells for output in cell.get("outputs", []) if output.output_type == "error"]


def calls(notebook):
    """Yields (function, its call) for every call of a function that a notebook imports from these packages."""
    known = {}
    for text in sources(notebook):
        lines = [line for line in text.splitlines() if not line.lstrip().startswith(("%", "!"))]
        for node in ast.walk(ast.parse("\n".join(lines))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in OURS:
                home = importlib.import_module(node.module)
                known |= {alias.asname or alias.name: getattr(home, alias.name, None) for alias in node.names}
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and callable(known.get(node.func.id)):
                yield known[node.func.id], node


@pytest.mark.parametrize("name", prepare.NAMES)
def test_functions_are_called_with_arguments_that_they_have(name):
    for function, call in calls(prepare.read(name)):
        if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
            continue
        inspect.signature(function).bind_partial(*call.args, **{k.arg: k.value for k in call.keywords})


def test_an_argument_that_went_would_be_found():
    cell = nbformat.v4.new_code_cell("from envs import make\nmake(num_worlds=4)")
    (found,) = calls(nbformat.v4.new_notebook(cells=[cell]))
    assert found[0].__name__ == "make"
    with pytest.raises(TypeError):
        inspect.signature(found[0]).bind_partial(**{k.arg: k.value for k in found[1].keywords})


# Execution.


@pytest.mark.slow
def test_the_curriculum_notebook_runs():
    notebook = prepare.execute(prepare.read("curriculum"), ROOT / "notebooks", "small")
    assert not errors(notebook)
    text = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))
    assert "ε = 0.4: p_LP = [0.25 0.55 0.1  0.1 ]" in text
    assert float(re.search(r"differs by at most (\S+)", text)[1]) < 1e-5


@pytest.fixture(scope="session")
def clean_environment(tmp_path_factory):
    """(python, folder): an environment with the installed package alone, and a copy of what a clone has besides."""
    place = tmp_path_factory.mktemp("clean")
    source, folder = place / "source", place / "clone"
    for name in ("curious_jax", "envs", "experiments"):
        shutil.copytree(ROOT / name, source / name)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("notebooks", "docs", "pretrained"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name)
    venv.create(place / "venv", with_pip=True)
    python = place / "venv" / "bin" / "python"
    package = f"{source}[experiments,notebooks,play]"
    install = [python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", package]
    subprocess.run(list(map(str, install)), check=True, capture_output=True)
    return python, folder


@pytest.mark.slow
@pytest.mark.parametrize("name", prepare.NAMES)
def test_notebooks_run_from_a_clean_environment(clean_environment, name):
    python, folder = clean_environment
    command = [str(python), "notebooks/prepare.py", "--execute", name, "--size", "small"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    notebook = nbformat.read(folder / "notebooks" / f"{name}.ipynb", as_version=4)
    assert not errors(notebook)
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")


def test_the_browsers_page_stays_out_of_what_is_committed():
    output = nbformat.v4.new_output("execute_result", {"text/html": "x" * 5_000_000, "text/plain": "<the arm>"})
    cell = nbformat.v4.new_code_cell("", outputs=[output, nbformat.v4.new_output("stream", text="said")])
    prepare.leave_page_out(cell)
    assert cell.outputs[0].data == {"text/plain": "<the arm>"} and cell.outputs[1].text == "said"
    assert tagged(prepare.read("quickstart"), prepare.PAGE_TAG)


# What is committed.


@pytest.mark.parametrize("name", prepare.NAMES)
def test_committed_notebooks_are_valid_executed_light_and_say_nothing_of_the_machine(name):
    path = ROOT / "notebooks" / f"{name}.ipynb"
    notebook = prepare.read(name)
    nbformat.validate(notebook)
    assert not errors(notebook)
    assert [c.execution_count for c in notebook.cells if c.cell_type == "code"] == list(
        range(1, len(sources(notebook)) + 1)
    )
    assert any("image/png" in o.get("data", {}) for c in notebook.cells for o in c.get("outputs", []))
    assert path.stat().st_size < 1.5e6
    assert not re.search(r"/(work|root|home|tmp)/|index-url|Traceback", path.read_text())


@pytest.mark.parametrize("name", prepare.NAMES)
def test_every_notebook_begins_with_its_badge_and_the_same_installation(name):
    notebook, other = prepare.read(name), prepare.read(prepare.NAMES[0])
    assert f"/blob/main/notebooks/{name}.ipynb)" in notebook.cells[0].source
    assert tagged(notebook, "install").source == tagged(other, "install").source
    assert tagged(notebook, "size").source == tagged(other, "size").source
    assert notebook.cells.index(tagged(notebook, "install")) == 1
    for target in re.findall(r"\]\(([\w./-]+)\)", "\n".join(sources(notebook, "markdown"))):
        assert (ROOT / "notebooks" / target).exists(), target


def test_the_installation_keeps_jax_and_numpy_and_nothing_else(monkeypatch, tmp_path):
    """The cell, on a runtime that lacks our requirements, with pip and git replaced by a record of their arguments."""
    import importlib.metadata

    def runtime():
        versions = {"jax": "0.10.2", "jaxlib": "0.10.2", "jax_cuda12_plugin": "0.10.2", "libtpu": "0.0.40"}
        versions |= {"numpy": "2.4.6", "numpyro": "0.19", "scipy": "1.17.1"}
        return [type("Found", (), {"name": name, "version": version}) for name, version in versions.items()]

    calls = []

    def run(command, **options):
        calls.append(command)
        if command[0] == "git":
            (tmp_path / "curious_jax").mkdir()
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.metadata, "distributions", runtime)
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    cell = tagged(prepare.read("quickstart"), "install").source
    exec(cell, {})
    git, pip = calls
    assert git[:2] == ["git", "clone"] and git[-2:][0].endswith("/curious_jax")
    assert pip[1:] == ["-m", "pip", "install", "-q", "-c", "kept.txt", ".[play,experiments]"]
    assert (tmp_path / "curious_jax" / "kept.txt").read_text().splitlines() == [
        *("jax==0.10.2", "jaxlib==0.10.2", "jax-cuda12-plugin==0.10.2", "libtpu==0.0.40", "numpy==2.4.6")
    ]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: "nvidia-smi")
    monkeypatch.setattr(subprocess, "run", lambda command, **options: subprocess.CompletedProcess(command, 1))
    with pytest.raises(SystemExit, match="jax 0.10"):
        exec(cell, {})


@pytest.mark.parametrize(
    ("device", "wanted"),
    [
        ("cpu", [".[play,experiments]"]),
        ("gpu", [".[play,experiments,cuda]"]),
        ("tpu", [".[play,experiments]", "jax[tpu]>=0.10"]),
    ],
)
def test_an_old_jax_is_replaced_with_what_ties_it_to_the_device_and_numpy_stays(device, wanted, monkeypatch, tmp_path):
    """On today's Colab: its jax is older than ours may be."""
    import importlib.metadata

    versions = {"jax": "0.7.2", "jaxlib": "0.7.2", "numpy": "2.1.3"} | ({"libtpu": "0.0.21"} if device == "tpu" else {})
    runtime = [type("Found", (), {"name": name, "version": version}) for name, version in versions.items()]
    calls = []
    (tmp_path / "docs" / "results").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: runtime)
    monkeypatch.setattr(shutil, "which", lambda name: "nvidia-smi" if device == "gpu" else None)
    monkeypatch.setattr(
        subprocess, "run", lambda command, **options: calls.append(command) or subprocess.CompletedProcess(command, 0)
    )
    cell = tagged(prepare.read("quickstart"), "install").source
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    exec(cell, {})
    (pip,) = calls
    assert pip[7:] == wanted and (tmp_path / "kept.txt").read_text() == "numpy==2.1.3"
    monkeypatch.setitem(sys.modules, "jax", object())
    with pytest.raises(SystemExit, match="restart the runtime"):
        exec(cell, {})


@pytest.mark.parametrize("lacking", ["pandas", "imageio-ffmpeg"])
def test_the_installation_is_made_where_one_requirement_is_missing(lacking, monkeypatch, tmp_path):
    import importlib.metadata

    names = {"flax", "mujoco-mjx", "optax", "orbax-checkpoint", "imageio-ffmpeg", "pandas"} - {lacking}
    runtime = [type("Found", (), {"name": name, "version": "1.0"}) for name in sorted(names)]
    calls = []
    (tmp_path / "docs" / "results").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: runtime)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    monkeypatch.setattr(
        subprocess, "run", lambda command, **options: calls.append(command) or subprocess.CompletedProcess(command, 0)
    )
    exec(tagged(prepare.read("experiments"), "install").source, {})
    assert [call[-1] for call in calls] == [".[play,experiments]"]


def test_the_installation_does_nothing_where_all_is_there(monkeypatch, tmp_path):
    (tmp_path / "docs" / "results").mkdir(parents=True)
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: pytest.fail("nothing was to be run"))
    exec(tagged(prepare.read("quickstart"), "install").source, {})
    assert Path.cwd() == tmp_path


# The address.


@pytest.fixture
def copied(monkeypatch, tmp_path):
    """A copy of the files with the address; returns what sets it."""
    for file in (*prepare.ADDRESSED, prepare.SITE):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    monkeypatch.setattr(prepare, "ROOT", tmp_path)

    def set_address(address):
        site = tmp_path / prepare.SITE
        site.write_text(re.sub(r"^(  repository: ).*", rf'\1"{address}"', site.read_text(), flags=re.MULTILINE))

    return set_address


def test_the_address_in_the_notebooks_is_the_sites():
    """Set in mkdocs.yml alone; `python notebooks/prepare.py --address` brings it here."""
    assert prepare.copies() == {prepare.address()}


def test_an_address_reaches_every_copy_and_the_next_one_too(copied, tmp_path):
    for address in ("https://github.com/some-body/curious_jax", "https://github.com/other/arm.js", ""):
        copied(address)
        prepare.copy_address()
        assert prepare.copies() == {address or prepare.UNSET}
        for file in prepare.ADDRESSED:
            text = (tmp_path / file).read_text()
            assert "some-body" in text or "some-body" not in address
            if file.endswith(".ipynb"):
                assert f'REPOSITORY = \\"{address or prepare.UNSET}\\"' in text
    for file in prepare.ADDRESSED:
        assert (tmp_path / file).read_text() == (ROOT / file).read_text()


def test_an_address_that_colab_cannot_open_is_refused(copied):
    copied("https://elsewhere.org/some-body/curious_jax")
    with pytest.raises(SystemExit, match=r"mkdocs.yml: repository must be"):
        prepare.copy_address()


def test_unknown_sizes_are_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["prepare.py", "--execute", "quickstart", "--size", "huge"])
    with pytest.raises(SystemExit):
        prepare.main()
    assert "--size" in capsys.readouterr().err
