"""The structure of the code: imports point downward only, without circles, and light programs import nothing heavy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# From the top down. A module imports from its own floor or from a lower one; the wings of one line share a floor.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("experiments",),
    ("curious_jax.__main__", "curious_jax.programs"),
    ("curious_jax.show", "curious_jax.measure"),
    ("curious_jax.run",),
    ("curious_jax.fit",),
    ("curious_jax.evaluation", "curious_jax.cli"),
    ("curious_jax.learner",),
    ("curious_jax.config",),
    ("curious_jax.types", "curious_jax.errors"),
    ("curious_jax",),
    ("envs",),
)
PROGRAMS = ("train", "evaluate", "play", "report", "export", "benchmark")
# Only these parts of curious_jax know the worlds.
KNOW_ENVS = ("curious_jax.programs", "curious_jax.cli", "curious_jax.measure")


def _modules() -> dict[str, Path]:
    """Return the path of every module of the three packages by its dotted name."""
    found = {}
    for package in ("curious_jax", "envs", "experiments"):
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = _modules()


def _imports(path: Path) -> set[str]:
    """Return the modules of ours that a file imports, anywhere in it but for type checking."""
    tree = ast.parse(path.read_text())
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in names}
    return found & set(MODULES)


ARROWS = {name: _imports(path) for name, path in MODULES.items()}


def _place(name: str) -> str:
    """Return the wing or file on the top floor that a module belongs to."""
    parts = name.split(".")
    if parts[0] == "curious_jax" and len(parts) > 1:
        return "curious_jax.programs" if parts[1] in PROGRAMS else ".".join(parts[:2])
    return parts[0]


def _floor(name: str) -> int:
    """Return how far down a module's place is."""
    return next(i for i, floor in enumerate(FLOORS) if _place(name) in floor)


def test_no_import_points_upward():
    upward = {f"{a} -> {b}" for a, targets in ARROWS.items() for b in targets if _floor(b) < _floor(a)}
    assert not upward


def test_only_programs_cli_and_measure_know_the_worlds():
    told = {
        f"{a} -> {b}"
        for a, targets in ARROWS.items()
        for b in targets
        if a.startswith("curious_jax") and b.startswith("envs") and _place(a) not in KNOW_ENVS
    }
    assert not told


def test_no_circle_between_modules():
    """Take away modules without arrows until none is left: what stays is a circle, or leads into one."""
    left = {a: {b for b in targets if b != a} for a, targets in ARROWS.items()}
    while removed := [a for a, targets in left.items() if not targets & left.keys()]:
        for a in removed:
            del left[a]
    assert not left, f"modules that import each other in a circle, or lead into one: {sorted(left)}"


def test_the_top_floor_stays_small():
    held = {path.name for path in (ROOT / "curious_jax").iterdir()} - {"__pycache__"}
    assert len(held) <= 18, sorted(held)


def test_every_wing_says_what_lives_there():
    for name, path in MODULES.items():
        if path.name == "__init__.py":
            assert ast.get_docstring(ast.parse(path.read_text())), f"{name}: no docstring"


# A first line that begins with one of these is a clause, not a sentence; the idioms are none that a student knows.
CLAUSES = ("Which ", "What ", "Where ", "Whether ", "How ", "When ", "That ", "Of ")
IDIOMS = ("so many", "goes on", "anew", "decides over")


def test_docstrings_are_plain_sentences():
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)):
                said = ast.get_docstring(node) or ""
                assert not said.startswith(CLAUSES) and not any(words in said for words in IDIOMS), f"{name}: {said}"


LIGHT = {
    "import curious_jax": ("jax", "flax", "mujoco", "matplotlib"),
    "import curious_jax.show.curves": ("jax", "flax", "optax"),
}


@pytest.mark.parametrize("statement", LIGHT)
def test_light_imports_stay_light(statement):
    code = f"{statement}; import sys; print(*[m for m in {LIGHT[statement]!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
