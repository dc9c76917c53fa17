"""A small terminal: what stays on the screen of what a program writes to it."""

import re

_CODE = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|\r|\n|.", re.S)


class Screen:
    """Understands what rich writes: text, line ends, cursor up, home, and erasing; lines that are too long wrap."""

    def __init__(self, width):
        self.width, self.lines, self.row, self.column = width, [""], 0, 0

    def write(self, text):
        for match in _CODE.finditer(text):
            number, code = match[1], match[2]
            if match[0] == "\r":
                self.column = 0
            elif match[0] == "\n":
                self._down()
            elif code == "A":
                self.row = max(self.row - int(number or 1), 0)
            elif code == "H":
                self.row = self.column = 0
            elif code == "K":
                self.lines[self.row] = "" if number == "2" else self.lines[self.row][: self.column]
            elif code == "J":
                self.lines = [""] * (self.row + 1)
            elif code is None:
                self._put(match[0])
        return len(text)

    def flush(self):
        pass

    def _put(self, character):
        if self.column == self.width:
            self._down()
        line = self.lines[self.row].ljust(self.column)
        self.lines[self.row] = line[: self.column] + character + line[self.column + 1 :]
        self.column += 1

    def _down(self):
        self.row, self.column = self.row + 1, 0
        if self.row == len(self.lines):
            self.lines.append("")
