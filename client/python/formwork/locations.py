"""Where the nodes that errors of the server name were made: lines of the traced Python program."""
import os
import re

# The loops and conditions that it is in come first.
_NODES = re.compile(r"(?:node '[^']*': )+")
_NODE = re.compile(r"'([^']*)'")
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
  node = _inside(graph, paths)
  name = paths[-1] if node is None else node.name
  lines = ["Graph execution error:", "",
           "Detected at node %s defined at (most recent call last):" % name]
  lines += ["<stack traces unavailable>"] if node is None else _frames(node)
  lines.append("%s\n\t [[{{node %s}}]] [Op:%s]" % (error.message[match.end():], name, function))
  error.message = "\n".join(lines)


def _frames(node):
  return ['  File "%s", line %d, in %s\n' % (frame.filename, frame.lineno, frame.name)
          for frame in node.traceback.get_user_frames()
          if not frame.filename.startswith(_HERE)]


def _inside(graph, paths):
  """The operation at the last path; each path is of one in a body of the one before. Or None."""
  node = _find(graph, paths[0])
  if node is None or len(paths) == 1:
    return node
  return next(filter(None, (_inside(body, paths[1:]) for body in _bodies(node))), None)


def _find(graph, path):
  """The operation of a graph, or of a function that it calls, at a path of names; or None."""
  names = path.split("/")
  for end in range(len(names), 0, -1):
    try:
      node = graph.get_operation_by_name("/".join(names[:end]))
    except (KeyError, ValueError):
      continue
    if end == len(names):
      return node
    for body in _bodies(node):
      found = _find(body, "/".join(names[end:]))
      if found is not None:
        return found
  return None


def _bodies(node):
  """The FuncGraphs that an operation may run."""
  for value in node.node_def.attr.values():
    for function in [value.func] if value.HasField("func") else value.list.func:
      known = node.graph._get_function(function.name)
      if known is not None and getattr(known, "graph", None) is not None:
        yield known.graph
