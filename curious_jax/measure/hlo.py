"""Reads XLA's optimised programs (HLO text): their loops, and what one pass of each launches, computes and moves."""

import functools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

# Operations that a device spends nothing on: they name buffers, or only wait.
NAMES = {
    *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "opt-barrier", "partition-id"),
    *("replica-id", "add-dependency", "domain"),
}
# Custom calls that name a buffer, too.
NAMED_CALLS = {"AllocateBuffer", "AssumeGatherIndicesInBound", "Sharding", "annotate_device_placement"}
BYTES = {"pred": 1, "s4": 1, "u4": 1, "bf16": 2, "f16": 2, "tuple": 0, "token": 0, "opaque": 0}
_SHAPE = re.compile(r"([a-z]+\d*[a-z0-9]*)\[([\d,<=]*)\](?:\{([^}]*)\})?")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (.*)$")
_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{$")


@dataclass(frozen=True)
class Cost:
    """Launches, custom calls, floating-point operations of matrix products, and bytes read and written."""

    launches: float = 0.0
    custom_calls: float = 0.0
    product_flop: float = 0.0
    bytes: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    def times(self, number: float) -> "Cost":
        """Gives the cost of as many passes."""
        return Cost(*(number * getattr(self, name) for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Instruction:
    """One line of a program."""

    name: str
    shape: str
    operation: str
    operands: tuple[str, ...]
    rest: str  # attributes

    def called(self, kind: str) -> str | None:
        """Names the computation that this attribute calls, or None."""
        found = re.search(rf"\b{kind}=%?([\w.\-]+)", self.rest)
        return found[1] if found else None


@dataclass(frozen=True)
class Loop:
    """A loop of the program: its passes (None where the program decides), and what one pass costs."""

    trips: int | None
    cost: Cost


@dataclass(eq=False)
class Program:
    """A program's computations by name, their instructions by name, in order."""

    computations: dict[str, dict[str, Instruction]] = field(default_factory=dict)
    entry: str = ""

    def cost(self) -> Cost:
        """Adds up the program; a loop whose passes are unknown counts once."""
        return self._costs(self.entry)

    def loop(self, inside: str, outside: str) -> Loop | None:
        """Finds the outermost loop with operations of the scope `inside` and without any of `outside`."""
        for instruction in self._loops(self.entry):
            scopes = self._scopes(instruction.called("body") or "")
            if inside in scopes and outside not in scopes:
                return Loop(self._trips(instruction), self._pass(instruction))
        return None

    @functools.cache  # noqa: B019 - a program lives no longer than its costs are asked for
    def _costs(self, computation: str) -> Cost:
        total = Cost()
        for instruction in self.computations[computation].values():
            total += self._cost(instruction, self.computations[computation])
        return total

    def _cost(self, instruction: Instruction, around: dict[str, Instruction]) -> Cost:
        operation = instruction.operation
        if operation in NAMES or operation.endswith(("-done", "-update")):  # of what a -start began
            return Cost()
        if operation == "while":
            return self._pass(instruction).times(self._trips(instruction) or 1)
        if operation == "conditional":
            branches = [self._costs(name) for name in self._branches(instruction)]
            return max(branches, key=lambda cost: (cost.launches, cost.bytes), default=Cost())
        if operation == "call":
            return self._costs(instruction.called("to_apply") or "")
        if operation == "async-start":
            return self._costs(instruction.called("calls") or "")
        custom = operation == "custom-call"
        if custom and _target(instruction) in NAMED_CALLS:
            return Cost()
        moved = self._bytes(instruction, around)
        return Cost(1.0, float(custom), self._product_flop(instruction, around), moved)

    def _pass(self, loop: Instruction) -> Cost:
        """Adds up a pass: the body, and the condition where the device must compute it."""
        cost = self._costs(loop.called("body") or "")
        return cost if self._trips(loop) is not None else cost + self._costs(loop.called("condition") or "")

    def _trips(self, loop: Instruction) -> int | None:
        """Reads a loop's passes: XLA's own note, or the constant that its counter from 0 is compared with."""
        if known := re.search(r'"known_trip_count":\{"n":"(\d+)"', loop.rest):
            return int(known[1])
        condition = self.computations[loop.called("condition") or ""]
        root = list(condition.values())[-1]
        if root.operation == "compare" and "direction=LT" in root.rest:
            limit = condition.get(root.operands[-1])
            if limit is not None and limit.operation == "constant" and (found := re.match(r"\((\d+)\)", limit.rest)):
                return int(found[1])
        return None

    def _branches(self, instruction: Instruction) -> list[str]:
        found = re.search(r"branch_computations=\{([^}]*)\}", instruction.rest)
        if found:
            return [name.strip().lstrip("%") for name in found[1].split(",")]
        names = (instruction.called("true_computation"), instruction.called("false_computation"))
        return [name for name in names if name]

    def _inner(self, instruction: Instruction) -> list[str]:
        """Lists every computation that an instruction runs."""
        kinds = ("body", "condition", "calls", "to_apply")
        return [name for kind in kinds if (name := instruction.called(kind))] + self._branches(instruction)

    def _loops(self, computation: str) -> Iterator[Instruction]:
        """Yields the loops below a computation, the outer ones first."""
        waiting = [computation]
        while waiting:
            for instruction in self.computations[waiting.pop(0)].values():
                if instruction.operation == "while":
                    yield instruction
                if instruction.operation in ("while", "call", "conditional"):
                    waiting += self._inner(instruction)

    @functools.cache  # noqa: B019 - a program lives no longer than its costs are asked for
    def _scopes(self, computation: str) -> frozenset[str]:
        """Collects the words of all operations' names, such as "physics", in a computation and those it calls."""
        found: set[str] = set()
        for instruction in self.computations[computation].values():
            if name := re.search(r'op_name="([^"]*)"', instruction.rest):
                found |= set(re.findall(r"\w+", name[1]))
            for inner in self._inner(instruction):
                found |= self._scopes(inner)
        return frozenset(found)

    def _product_flop(self, instruction: Instruction, around: dict[str, Instruction]) -> float:
        """Counts two operations for every element of a product's result and of the axis it sums over."""
        if instruction.operation == "fusion":
            inside = self.computations[instruction.called("calls") or ""]
            return sum(self._product_flop(inner, inside) for inner in inside.values())
        if instruction.operation == "convolution":
            kernel = around.get(instruction.operands[1])
            labels = re.search(r"dim_labels=\w+_(\w+)->", instruction.rest)
            if kernel is None or labels is None:
                return 0.0
            summed = [size for axis, size in zip(labels[1], _dims(kernel.shape)) if axis == "i"]
        elif instruction.operation == "dot" or "gemm" in _target(instruction) or "matmul" in _target(instruction):
            left = around.get(instruction.operands[0])
            axes = re.search(
                r'lhs_contracting_dim(?:ension)?s(?:"?)[=:](?:\{|\[)"?([\d",]*)(?:\}|\])', instruction.rest
            )
            if left is None or axes is None:
                return 0.0
            summed = [_dims(left.shape)[int(axis)] for axis in re.findall(r"\d+", axes[1])]
        else:
            return 0.0
        return 2.0 * math.prod(_dims(instruction.shape)) * math.prod(summed)

    def _bytes(self, instruction: Instruction, around: dict[str, Instruction]) -> float:
        """Counts what an operation reads and writes in the device's main memory, slices by their own size."""
        if instruction.operation == "fusion":
            inside = self.computations[instruction.called("calls") or ""]
            places = sorted(
                (i for i in inside.values() if i.operation == "parameter"), key=lambda i: int(_argument(i.rest))
            )
            sizes = [_size(around[o].shape) if o in around else 0.0 for o in instruction.operands]
            read = sum(self._read(place.name, size, inside) for place, size in zip(places, sizes))
            return read + self._written(list(inside.values())[-1], instruction.shape, inside)
        operation, operands = instruction.operation, instruction.operands
        if operation == "copy-start":  # (where to, where from, context)
            to, source = _elements(instruction.shape)[:2]
            return _size(to) + _size(source)
        if operation in ("slice-start", "dynamic-slice-start"):  # ((where from, ...), the slice, context)
            source, taken = _elements(instruction.shape)[:2]
            return _size(taken) + (0.0 if _is_fast(_elements(source)[0]) else _size(taken, everywhere=True))
        if operation in ("dynamic-slice", "gather", "slice"):
            return 2.0 * _size(instruction.shape)
        if operation in ("dynamic-update-slice", "scatter"):
            return 2.0 * sum(_size(around[o].shape) for o in _changes(instruction))
        return _size(instruction.shape) + sum(_size(around[o].shape) for o in operands if o in around)

    def _read(self, name: str, size: float, inside: dict[str, Instruction]) -> float:
        """Counts the bytes that a fusion reads of one operand: all, or the slices that it takes."""
        taken = 0.0
        for user in (i for i in inside.values() if name in i.operands):
            first = user.operands[0] == name
            if first and user.operation in ("dynamic-slice", "gather", "slice"):
                taken += _size(user.shape)
            elif first and user.operation == "bitcast":
                taken += self._read(user.name, size, inside)
            elif not (first and user.operation in ("dynamic-update-slice", "scatter")):  # those change it in place
                return size
        return min(taken, size)

    def _written(self, root: Instruction, shape: str, inside: dict[str, Instruction]) -> float:
        """Counts the bytes that a fusion writes: its results, of those changed in place the changed part."""
        if root.operation == "tuple":
            return sum(self._written(inside[o], inside[o].shape, inside) for o in root.operands)
        while root.operation == "bitcast":
            root = inside[root.operands[0]]
        if root.operation in ("dynamic-update-slice", "scatter"):
            return sum(_size(inside[o].shape) for o in _changes(root))
        return _size(shape)


def read(text: str) -> Program:
    """Reads a compiled program's text."""
    program, current = Program(), None
    for line in text.splitlines():
        if header := _COMPUTATION.match(line):
            current = program.computations.setdefault(header[2], {})
            program.entry = header[2] if header[1] else program.entry
        elif line.startswith("}"):
            current = None
        elif current is not None and (found := _INSTRUCTION.match(line)):
            instruction = _instruction(found[1], found[2])
            current[instruction.name] = instruction
    return program


def _instruction(name: str, text: str) -> Instruction:
    """Splits `shape operation(operands), attributes`; shapes may be tuples."""
    end = _closing(text, 0) + 1 if text.startswith("(") else text.index(" ")
    shape, text = text[:end], text[end:].lstrip()
    operation, _, _ = text.partition("(")
    close = _closing(text, len(operation))
    inside = text[len(operation) + 1 : close]
    if operation in ("parameter", "constant"):
        return Instruction(name, shape, operation, (), text[len(operation) :])
    operands = tuple(re.findall(r"%([\w.\-]+)", inside))
    return Instruction(name, shape, operation, operands, text[close + 1 :])


def _closing(text: str, start: int) -> int:
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if depth == 0:
            return place
    return len(text)


def _argument(rest: str) -> str:
    return rest[1 : rest.index(")")]


def _target(instruction: Instruction) -> str:
    found = re.search(r'custom_call_target="([^"]*)"', instruction.rest)
    return found[1] if found else ""


def _dims(shape: str) -> list[int]:
    found = _SHAPE.search(shape)
    return [int(size.lstrip("<=")) for size in found[2].split(",") if size] if found else []


def _changes(instruction: Instruction) -> tuple[str, ...]:
    """Names what a dynamic-update-slice or a scatter (of n arrays, indices, n changes) puts into its arrays."""
    operands = instruction.operands
    return operands[len(operands) // 2 + 1 :] if instruction.operation == "scatter" else operands[1:2]


def _elements(shape: str) -> list[str]:
    """Splits a tuple's shape into its elements' shapes; the shape of an array is its own."""
    if not shape.startswith("("):
        return [shape]
    found, depth, begin = [], 0, 1
    for place, letter in enumerate(shape):
        depth += (letter in "([{") - (letter in ")]}")
        if (letter == "," and depth == 1) or depth == 0:
            found.append(shape[begin:place].strip())
            begin = place + 1
        if depth == 0:
            break
    return found


def _is_fast(shape: str) -> bool:
    """Tells whether an array lies in a TPU's fast memory (S(1) and up)."""
    return any("S(" in layout for _, _, layout in _SHAPE.findall(shape))


def _size(shape: str, everywhere: bool = False) -> float:
    """Counts the bytes of a shape, or of a tuple's; those in a TPU's fast memory are none, unless `everywhere`."""
    total = 0.0
    for kind, sizes, layout in _SHAPE.findall(shape):
        if "S(" in layout and not everywhere:
            continue
        bits = re.search(r"\d+", kind)
        width = BYTES.get(kind, int(bits[0]) / 8 if bits else 0)
        total += width * math.prod(int(size.lstrip("<=")) for size in sizes.split(",") if size)
    return total
