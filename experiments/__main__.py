"""Lists the experiments and the checks: `python -m experiments`."""

import ast
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    """Print every command with the first sentence of what it does."""
    for title, folder in (("Experiments", HERE), ("Checks", HERE / "checks")):
        print(f"{title} (each has --help):")
        for path in sorted(folder.glob("[a-z]*.py")):
            tree = ast.parse(path.read_text())
            if 'if __name__ == "__main__":' in path.read_text():
                name = ".".join(path.relative_to(HERE.parent).with_suffix("").parts)
                print(f"  python -m {name}  {(ast.get_docstring(tree) or '').splitlines()[0]}")


if __name__ == "__main__":
    main()
