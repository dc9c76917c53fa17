"""Builds the ONNX graph of a policy: obs [N, O], goal [N, G], module [N] -> action [N, A].

It is built from the arrays of `portable.make` with the helpers of the onnx package, in operators of a version that
runtimes have had for years.
"""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 17, 8  # of 2022


class _Graph:
    """A graph that grows: constants and nodes, each named when it is added."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def constant(self, name: str, array: Any) -> str:
        """Adds an array under a name; returns the name."""
        self.constants[name] = numpy_helper.from_array(np.asarray(array), name)
        return name

    def add(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Adds a node; returns its output's name."""
        name = name or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name


def build(arrays: dict[str, np.ndarray], about: dict[str, Any], metadata: dict[str, str]) -> bytes:
    """Makes the model file.

    Args:
      arrays, about: what `portable.make` made.
      metadata: what the file is to say of itself.
    """
    graph = _Graph()
    for name, array in arrays.items():
        graph.constant(name, array)
    asked = graph.add("Unsqueeze", "module", graph.constant("axis_1", np.array([1], np.int64)))  # [N, 1]
    descriptor = _descriptor(graph, asked, len(about["modules"]))
    inputs = [_normalize(graph, "obs", "obs", about["clip"]), _goal(graph, asked, about["clip"]), descriptor]
    x = graph.add("Concat", *inputs, axis=1, name="inputs")
    for number in range(about["layers"]):
        x = _layer(graph, x, number, about, last=number == about["layers"] - 1)
    if about["experts"]:  # [M, N, A]: the one that the descriptor names acts
        named = graph.add("Unsqueeze", graph.add("Transpose", descriptor, perm=[1, 0]), graph.constant("axis_2", [2]))
        x = graph.add("ReduceSum", graph.add("Mul", x, named), graph.constant("axis_0", [0]), keepdims=0)
    graph.add("Identity", x, name="action")
    return _model(graph, about, metadata)


def _descriptor(graph: _Graph, asked: str, num_modules: int) -> str:
    """Adds the one-hot module descriptor [N, M]; zeros for the flat goal."""
    numbers = graph.constant("module_numbers", np.arange(num_modules, dtype=np.int64)[None])
    return graph.add("Cast", graph.add("Equal", asked, numbers), to=TensorProto.FLOAT, name="descriptor")


def _goal(graph: _Graph, asked: str, clip: float) -> str:
    """Adds the goal as it stands now, normalised and zero outside the module's slots [N, G]."""
    seen = graph.add("Gather", "obs", "goal.index", axis=1)
    followed = graph.add("Add", graph.add("Mul", seen, "goal.scale"), "goal.offset")
    now = graph.add("Add", graph.add("Mul", "goal", "goal.keep"), followed)
    own = graph.add("Equal", asked, "goal.module")
    all_of_them = graph.add("Less", asked, graph.constant("module_0", np.array([[0]], np.int64)))  # the flat goal
    mask = graph.add("Or", own, all_of_them)
    zero = graph.constant("zero", np.float32(0))
    return graph.add("Where", mask, _normalize(graph, now, "goal", clip), zero)


def _normalize(graph: _Graph, x: str, part: str, clip: float) -> str:
    """Adds (x - mean) / std, clipped."""
    low, high = (graph.constant(f"{part}.{side}", np.float32(x)) for side, x in (("low", -clip), ("high", clip)))
    return graph.add("Clip", graph.add("Div", graph.add("Sub", x, f"{part}.mean"), f"{part}.std"), low, high)


def _layer(graph: _Graph, x: str, number: int, about: dict[str, Any], last: bool) -> str:
    """Adds a layer, with normalisation where it has one, and ReLU; tanh after the last. Experts lead with an axis M."""

    def array(name: str) -> str:
        """Names the layer's array; of experts a row [H] becomes [1, H], for the axis N."""
        full = f"layer.{number}.{name}"
        if about["experts"]:
            rows = numpy_helper.to_array(graph.constants[full])[:, None]
            return graph.constant(full, rows)
        return full

    x = graph.add("Add", graph.add("MatMul", x, f"layer.{number}.weight"), array("bias"))
    if f"layer.{number}.norm_scale" in graph.constants:
        size = numpy_helper.to_array(graph.constants[f"layer.{number}.norm_scale"]).shape[-1]
        ones = graph.constant(f"layer.{number}.ones", np.ones(size, np.float32))
        zeros = graph.constant(f"layer.{number}.zeros", np.zeros(size, np.float32))
        x = graph.add("LayerNormalization", x, ones, zeros, axis=-1, epsilon=about["norm_epsilon"])
        x = graph.add("Add", graph.add("Mul", x, array("norm_scale")), array("norm_shift"))
    return graph.add("Tanh" if last else "Relu", x)


def _model(graph: _Graph, about: dict[str, Any], metadata: dict[str, str]) -> bytes:
    """Makes a checked model of the graph."""
    sizes = {"obs": about["obs_size"], "goal": about["goal_size"]}
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size]) for name, size in sizes.items()]
    given.append(helper.make_tensor_value_info("module", TensorProto.INT64, ["N"]))
    made = [helper.make_tensor_value_info("action", TensorProto.FLOAT, ["N", about["action_size"]])]
    body = helper.make_graph(graph.nodes, "policy", given, made, list(graph.constants.values()))
    model = helper.make_model(
        body,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="curious_jax",
        producer_version=about["version"],
    )
    helper.set_model_props(model, metadata)
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString()
