"""One traced graph on the server: registered when first run, its tensors sent and fetched."""
import gc
import threading

import numpy as np
from tensorflow.python.eager import context
from tensorflow.python.framework import auto_control_deps_utils
from tensorflow.python.framework import dtypes as tf_dtypes
from tensorflow.python.framework import ops
from tensorflow.python.ops import array_ops
from tensorflow.python.ops import resource_variable_ops

from formwork import concrete
from formwork import dtypes
from formwork import errors
from formwork import mirror
from formwork import resources
from formwork import state
from formwork import tracing
from formwork import types
from formwork import wire

_MOST_NAMES = 1000


class Owner:
  """The function object that traces belong to: its server and its name there.

  Attributes:
    traces: how many were registered.
    silent: what they print was printed before.
  """

  def __init__(self, bindings, scope, wanted):
    self.bindings = bindings
    self.scope = scope
    self.wanted = wanted
    self.traces = 0
    self.silent = False
    self._name, self._generation = None, -1

  def name(self):
    if self._generation != self.bindings.generation:
      self.rename()
    return self._name

  def rename(self):
    """Takes the next free name: the last one means another function on the server."""
    self._name = self.bindings.function_name(state.scoped(self.scope, self.wanted))
    self._generation = self.bindings.generation


class _Registration(concrete.Registration):
  """A registration whose captured variables are looked up again before it is sent again."""

  def __init__(self, registration, bindings, captured):
    super().__init__(registration.request, registration._graph_def)
    self._bindings = bindings
    self._captured = captured  # {graph tensor: Bound}

  def send_again(self, server):
    self._bindings.reattach(self._captured.values())
    for capture in self.request.captures:
      if capture.tensor in self._captured:
        capture.value.resource_id = self._captured[capture.tensor].remote.id
    return self.send(server)


class Remote:
  """A FuncGraph cut at its inputs and outputs, on the server. Safe to use from many threads.

  Of the graph's inputs the first `inputs` are given with every call, then `fixed` ones are
  captured when it is registered, and the rest (captures that change) are given with every call.

  Attributes:
    last_call: when it ran last, by the bindings' clock.
  """

  def __init__(self, owner, graph, inputs, fixed, function_type=None, describe=None, suffix=""):
    self.last_call = 0
    self._owner = owner
    self._bindings = owner.bindings
    self._graph = graph
    self._first_fixed, self._first_deferred = inputs, inputs + fixed
    self._function_type = function_type
    self._describe = describe
    self._suffix = suffix
    self._graph_inputs = list(graph.inputs)
    outputs = list(graph.outputs)  # A gradient adds to the graph's later.
    # A variable's handle that comes out as it went in need not travel.
    places = {id(t): i for i, t in enumerate(graph.inputs)}
    self._passed = {k: places[id(t)] for k, t in enumerate(outputs)
                    if t.dtype == tf_dtypes.resource and id(t) in places}
    self._fetched = [t for k, t in enumerate(outputs) if k not in self._passed]
    self._dtypes = [t.dtype for t in self._fetched]
    self._concrete, self._generation = None, -1
    self._lock = threading.Lock()
    self._written = frozenset()
    self._repeatable = True
    self._on_print = None
    self._counted = False
    self._captured, self._changed = [], []  # Bounds; those that a call may change.

  # ----------------------------------------------------------------------------------- registering
  def ensure(self, captured, variables):
    """The ConcreteFunction on the server; `captured` are the values of the fixed captures."""
    if self._generation == self._bindings.generation:
      return self._concrete
    with self._bindings.lock:
      if self._generation != self._bindings.generation:
        self._concrete = self._register(captured, variables)
        self._generation = self._bindings.generation
    return self._concrete

  def _register(self, captured, variables):
    inputs = self._graph_inputs
    fixed = inputs[self._first_fixed:self._first_deferred]
    read_only = set(auto_control_deps_utils.get_read_only_resource_input_indices_graph(
        self._graph))
    self._written = frozenset(i for i, t in enumerate(inputs)
                              if t.dtype == tf_dtypes.resource and i not in read_only)
    handles = [(t.name, h, self._first_fixed + i) for i, (t, h) in enumerate(zip(fixed, captured))
               if t.dtype == tf_dtypes.resource]
    bounds = self._bind([h for _, h, _ in handles], variables)
    bound = {name: b for (name, _, _), b in zip(handles, bounds)}
    self._captured = bounds
    self._changed = [b for (_, _, i), b in zip(handles, bounds) if i in self._written]
    for b in self._changed:
      b.writers.append(self)
    captures = {t.name: bound[t.name].remote if t.name in bound else _captured_value(t, value)
                for t, value in zip(fixed, captured)}
    given = inputs[:self._first_fixed] + inputs[self._first_deferred:]
    specs = [_spec(t) for t in given]
    signature = None
    if self._function_type is not None and self._first_deferred == len(inputs):
      signature = tracing.signature(self._function_type)
    graph_def = tracing.graph_bytes(self._graph)
    effects = tracing.Effects(graph_def)
    self._repeatable = not self._written and not effects.random
    if effects.calls:
      mirror.watch_traces_inside(self._bindings)
    if self._owner.silent:
      self._on_print = lambda text: None
    elif effects.prints_to_stdout:
      self._on_print = concrete.print_to_stdout
    server = self._bindings.server
    if self._describe is not None and not self._counted:
      self._counted = True
      self._owner.traces += 1
    for _ in range(_MOST_NAMES):
      registration = _Registration(server._registration(
          self._owner.name() + self._suffix, graph_def, specs, [t.name for t in self._fetched],
          captures, sorted(op.name for op in self._graph.control_outputs), signature,
          pretty_signature=self._describe() if self._describe else "",
          retrace=self._owner.traces > 1 and self._describe is not None), self._bindings, bound)
      try:
        info, existed = registration.send(server)
        return concrete.ConcreteFunction(server, info, registration, existed)
      except errors.Error as e:
        if e.code != "ALREADY_EXISTS":
          raise
      self._owner.rename()
    raise errors.Error("ALREADY_EXISTS", "no free name for function '%s'" % self._owner.wanted)

  def _bind(self, handles, variables):
    """The Bounds of the variables that the handles belong to."""
    if not handles:
      return []
    known = {id(mirror.raw_handle(v)): v for v in variables()}
    found = []
    for handle in handles:
      bound = self._bindings.known(handle)
      variable = bound.variable() if bound is not None else known.get(id(handle))
      if variable is None:
        variable = _variable_of(handle)
      found.append(variable)
    unique = list({id(v): v for v in found}.values())
    bounds = dict(zip(map(id, unique), self._bindings.bind(unique, self._owner.scope)))
    return [bounds[id(v)] for v in found]

  # --------------------------------------------------------------------------------------- running
  def run(self, args, variables):
    """Runs it on EagerTensors, one for each input of the graph. Returns one for each output."""
    function = self.ensure(args[self._first_fixed:self._first_deferred], variables)
    if self._first_fixed == len(args):
      given = args
    else:
      given = args[:self._first_fixed] + args[self._first_deferred:]
    parts = [None]
    changed = ()
    for i, t in enumerate(given):
      if t.dtype == tf_dtypes.resource:
        (bound,) = self._bind([t], variables)
        if bound.epoch != self._bindings.server._channel.epoch:
          self._bindings.reattach([bound])
        bound.exchange()
        if self._place(i) in self._written:
          changed += (bound,)
        wire.append_value(parts, resources.value_message(bound.remote))
      else:
        append_eager(parts, t)
    try:
      outputs = self._exchange(function, parts)
    finally:
      for bound in changed:
        bound.synced = -1
        bound.fetch()
    made = [to_eager(value, dtype, self._owner, i)
            for i, (value, dtype) in enumerate(zip(outputs, self._dtypes))]
    for place in sorted(self._passed):
      made.insert(place, args[self._passed[place]])
    return made

  def _exchange(self, function, parts):
    """The call itself; before and after it the values that local tf.functions use too."""
    if self._bindings.shared:
      for bound in self._captured:
        bound.exchange()
    try:
      return function.run(parts, on_print=self._on_print)
    finally:
      self.last_call = next(self._bindings.clock)
      if self._bindings.shared:
        for bound in self._changed:
          bound.fetch()

  def repeatable(self):
    """Whether another run does the same. Known once it is registered."""
    return self._repeatable

  def takes(self, tensors):
    """Whether these are what a call sends, and all of it: for run_tensors."""
    return (self._first_fixed == len(tensors) and not self._passed and
            self._first_deferred == len(self._graph_inputs) and all(
                t.dtype.as_numpy_dtype == x.dtype if isinstance(x, np.ndarray) else
                t.dtype == x.dtype and t.dtype != tf_dtypes.resource
                for t, x in zip(self._graph_inputs, tensors)))

  def run_tensors(self, tensors, captured, variables):
    """As run(), for EagerTensors and arrays that are all that a call sends."""
    function = self.ensure(captured, variables)
    parts = [None]
    for t in tensors:
      if type(t) is np.ndarray:
        wire.append_tensor(parts, *wire.to_array(t))
      else:
        append_eager(parts, t)
    outputs = self._exchange(function, parts)
    return [to_eager(value, dtype, self._owner, i)
            for i, (value, dtype) in enumerate(zip(outputs, self._dtypes))]

  def _place(self, i):
    """The place among the graph's inputs of the i-th input of a call."""
    return i if i < self._first_fixed else i - self._first_fixed + self._first_deferred


def _spec(t):
  dtype = t.dtype.base_dtype
  shape = [] if dtype == tf_dtypes.resource else tracing.shape_list(t.shape)
  return types.TensorSpec(t.name, dtype.name, shape)


def _captured_value(placeholder, value):
  if value.dtype == tf_dtypes.variant:
    raise errors.Error("UNIMPLEMENTED", "capture '%s': a variant cannot be sent" %
                       placeholder.name)
  return value


def _variable_of(handle):
  """The tf.Variable that has this handle, when all that is known is the handle."""
  for holder in gc.get_referrers(handle):
    candidates = [holder] if not isinstance(holder, dict) else gc.get_referrers(holder)
    for v in candidates:
      if isinstance(v, resource_variable_ops.BaseResourceVariable) and (
          mirror.raw_handle(v) is handle):
        return v
  data = getattr(handle, "_handle_data", None)
  if data is not None and data.is_set and len(data.shape_and_type) == 1:
    return state.Orphan(handle)
  raise errors.Error("UNIMPLEMENTED", "a resource that is no tf.Variable cannot be used: %s" % (
      handle,))


def append_eager(parts, t):
  """Appends an EagerTensor to the pieces of a request."""
  number = t.dtype.as_datatype_enum
  if number == dtypes.VARIANT:
    raise errors.Error("UNIMPLEMENTED", "a variant cannot be sent as an argument")
  value = t.numpy()
  if not isinstance(value, np.ndarray):
    if number == dtypes.STRING:
      array = np.empty((), object)
      array[()] = value
      value = array
    else:
      value = np.asarray(value)
  if value.dtype.names:  # Quantized types are structs of one field here.
    value = value.view(dtypes.to_numpy(number))
  wire.append_tensor(parts, value, number)


def to_eager(value, dtype, owner, index):
  """The EagerTensor of one output of a response."""
  if isinstance(value, np.ndarray):
    array = value
  elif value.WhichOneof("kind") == "tensor":
    array = wire.from_message(value.tensor, copy=False)
  else:
    raise errors.Error("UNIMPLEMENTED", "%s: output %d is a %s, which cannot leave the server" % (
        owner.wanted, index, dtype.name))
  ctx = context.context()
  ctx.ensure_initialized()
  if dtype.is_quantized:
    return array_ops.bitcast(ops.EagerTensor(array, ctx.device_name, None), dtype)
  return ops.EagerTensor(array, ctx.device_name, dtype.as_datatype_enum)
