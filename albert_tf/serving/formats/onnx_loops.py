"""Loops in ONNX whose weights stand outside.

tf2onnx hands everything that the body of a loop reads from one pass to the
next, so that ONNX Runtime can neither arrange kernels for their products
beforehand nor have them in 8 bits.
"""

from typing import Any


def hoist(graph: Any) -> None:
    """Let the bodies of loops read what they do not change from outside."""
    from onnx import AttributeProto  # An extra.

    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                hoist(attribute.g)
                if node.op_type == "Loop":
                    _hoist(node, attribute.g, graph)


def _hoist(loop: Any, body: Any, graph: Any) -> None:
    """Do so for one loop of a graph.

    Inputs of a loop: the most passes, the condition, values. Inputs of its
    body: the number of the pass, the condition, values. Outputs of the body:
    the condition, values. Outputs of the loop: values.
    """
    copied = {
        node.output[0]: node.input[0]
        for node in body.node
        if node.op_type == "Identity"
    }
    for place in reversed(range(2, len(loop.input))):
        inside, left = body.input[place].name, body.output[place - 1].name
        while left in copied:
            left = copied[left]
        if left == inside:
            outside = loop.input[place]
            _rename(body, inside, outside)
            _rename(graph, loop.output[place - 2], outside)
            del loop.input[place], loop.output[place - 2]
            del body.input[place], body.output[place - 1]


def _rename(graph: Any, old: str, new: str) -> None:
    """Have all that reads a value read another one."""
    for node in graph.node:
        node.input[:] = [new if name == old else name for name in node.input]
        for attribute in node.attribute:
            _rename(attribute.g, old, new)
    for output in graph.output:
        if output.name == old:
            output.name = new
