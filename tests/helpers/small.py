"""The options of a small run on the probe world, and a program that must refuse its input."""

# A run of a few seconds, compilation included.
SMALL = (
    *("--world", "point", "--modules", "reach,push", "--preset", "cpu", "--num-envs", "4", "--episodes", "16"),
    *("--updates-per-cycle", "2", "--batch-size", "8", "--capacity", "32", "--evaluation-interval", "8"),
    *("--evaluation-episodes", "10", "--hidden-size", "8", "--hidden-layers", "1"),
)


def refused(program, argv, capsys, folder):
    """Runs a program that must refuse its input: exit 2, one line on standard error, nothing written; the line."""
    before = sorted(folder.rglob("*"))
    status = program.main([str(a) for a in argv])
    streams = capsys.readouterr()
    assert status == 2
    assert streams.out == ""
    assert streams.err.endswith("\n") and streams.err.count("\n") == 1, streams.err
    assert sorted(folder.rglob("*")) == before
    return streams.err.strip()
