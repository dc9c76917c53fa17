"""Tables in Markdown, character by character."""

from curious_jax.cli import markdown


def test_a_table_by_hand():
    assert markdown.table(("a", "b"), [["1", ""], ["2", "x"]]) == "| a | b |\n| --- | --- |\n| 1 |  |\n| 2 | x |"


def test_numbers_stand_at_the_right():
    assert markdown.table(("name", "ms", "share"), [], numbers=2) == "| name | ms | share |\n| --- | ---: | ---: |"
