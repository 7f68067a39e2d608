"""Where the nodes that errors of the server name were made: lines of the traced Python program."""
import os
import re

# The calls that it is in come first.
_NODES = re.compile(r"(?:node '[^']*': )+")
_NODE = re.compile(r"'([^']*)'")
# By attr: how the server names nodes in a body after the node whose body it is.
_BODIES = {"then_branch": "then", "else_branch": "else", "cond": "cond", "body": "body"}
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def locate(error, graph, function):
  """Gives an error that names a node the text that TensorFlow's has.

  Args:
    error: an errors.Error.
    graph: the FuncGraph that was run.
    function: TensorFlow's name of the graph.
  """
  match = _NODES.match(error.message)
  if match is None:
    return
  paths = _NODE.findall(match.group())
  node = _find(graph, "/".join(paths).split("/"))
  name = paths[-1] if node is None else node.name
  lines = ["Graph execution error:", "",
           "Detected at node %s defined at (most recent call last):" % name]
  # Nodes of a function of a SavedModel have none.
  known = node is not None and node.traceback is not None
  lines += _frames(node) if known else ["<stack traces unavailable>"]
  lines.append("%s\n\t [[{{node %s}}]] [Op:%s]" % (error.message[match.end():], name, function))
  error.message = "\n".join(lines)


def _frames(node):
  return ['  File "%s", line %d, in %s\n' % (frame.filename, frame.lineno, frame.name)
          for frame in node.traceback.get_user_frames()
          if not frame.filename.startswith(_HERE)]


def _find(graph, names):
  """The operation of a graph, or of a function that it calls, at a path of names; or None."""
  for end in range(len(names), 0, -1):
    try:
      node = graph.get_operation_by_name("/".join(names[:end]))
    except (KeyError, ValueError):
      continue
    if end == len(names):
      return node
    for before, body in _bodies(node):
      rest = names[end:]
      if before is not None and rest.pop(0) != before:
        continue
      found = _find(body, rest)
      if found is not None:
        return found
  return None


def _bodies(node):
  """What comes before the names in each FuncGraph that an operation may run, or None; and that."""
  for attr, value in node.node_def.attr.items():
    for i, function in enumerate([value.func] if value.HasField("func") else value.list.func):
      known = node.graph._get_function(function.name)
      if known is not None and getattr(known, "graph", None) is not None:
        yield ("branch%d" % i if attr == "branches" else _BODIES.get(attr)), known.graph
