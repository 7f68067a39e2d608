"""Handles of tf.Variables: how graphs pass them on, and whose they are."""
import re

from tensorflow.dtensor.python import d_variable
from tensorflow.python.framework import dtypes as tf_dtypes
from tensorflow.python.ops import array_ops
from tensorflow.python.ops import resource_variable_ops
from tensorflow.python.trackable import resource as trackable_resource

from formwork import concrete
from formwork import datasets
from formwork import errors
from formwork import state
from formwork import tables

# Ops that run one function, and the attribute that names it.
_BODIES = {"PartitionedCall": "f", "StatefulPartitionedCall": "f", "While": "body",
           "StatelessWhile": "body"}
_RESOURCE_TYPE = re.compile(r'type="[\w:]*?(\w+)"')  # In the text of a handle.


def origin(t):
  """The tensor of a graph that a variable's handle was before calls and loops passed it on."""
  while t.dtype == tf_dtypes.resource:
    place = 0
    if t.op.type in _BODIES:
      body = t.graph._get_function(t.op.get_attr(_BODIES[t.op.type]).name).graph
      result = origin(body.outputs[t.value_index])
      place = next((i for i, given in enumerate(body.inputs) if given is result), None)
    elif t.op.type != "Identity":
      break
    if place is None:
      break
    t = t.op.inputs[place]
  return t


def passed_on(t):
  """What TensorFlow's runtime makes of an input that is an output as well: another tensor."""
  made = array_ops.identity(t)
  if t.dtype == tf_dtypes.resource:
    made._formwork_handle = getattr(t, "_formwork_handle", t)
  return made


def variable_of(handle):
  """The tf.Variable that has this handle, or the Local of a table or an iterator.

  Errors: UNIMPLEMENTED where it is the handle of something else.
  """
  parent = getattr(handle, "_parent_trackable", None)
  owner = None if parent is None else parent()
  if isinstance(owner, resource_variable_ops.BaseResourceVariable) and not isinstance(
      owner, d_variable.DVariable):  # Its value lies on a mesh of devices.
    return owner
  found = tables.local(handle, owner) or datasets.local(handle)
  if found is not None:
    return found
  data = getattr(handle, "_handle_data", None)
  if owner is None and data is not None and data.is_set and len(data.shape_and_type) == 1:
    return state.Orphan(handle)
  if owner is None or isinstance(owner, trackable_resource.RestoredResource):
    kind = _RESOURCE_TYPE.search(str(handle))
    name = kind.group(1) if kind else "resource"
  else:
    name = type(owner).__name__
  raise errors.Error("UNIMPLEMENTED", concrete.with_advice(
      "of what lives in this process a function on a server can use tf.Variables, hash "
      "tables, datasets and their iterators alone, not a %s" % name))
