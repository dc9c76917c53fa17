"""Lists the experiments and the checks: `python -m experiments`."""

import ast
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    """Print every command with the first paragraph of what it says of itself."""
    for title, folder in (("Experiments", HERE), ("Checks", HERE / "checks")):
        print(f"{title} (each has --help):")
        for path in sorted(folder.glob("[a-z]*.py")):
            text = path.read_text()
            if 'if __name__ == "__main__":' in text:
                name = ".".join(path.relative_to(HERE.parent).with_suffix("").parts)
                what = " ".join((ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0].split())
                print(f"  python -m {name}  {what}")


if __name__ == "__main__":
    main()
