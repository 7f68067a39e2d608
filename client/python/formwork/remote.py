"""One traced graph on the server: registered when first run, its tensors sent and fetched."""
import contextlib
import functools
import math
import operator
import threading

import numpy as np
from tensorflow.python.eager import context
from tensorflow.python.framework import auto_control_deps_utils
from tensorflow.python.framework import dtypes as tf_dtypes
from tensorflow.python.framework import ops
from tensorflow.python.util import nest

from formwork import concrete
from formwork import datasets
from formwork import eager
from formwork import errors
from formwork import handles
from formwork import intermediates
from formwork import loaded
from formwork import state
from formwork import tracing
from formwork import types
from formwork import wire

BACKWARD = ".backward"  # What goes after an Owner's name for its backward functions.
_MOST_NAMES = 1000
_LOST_VARIABLE = ("EPOCH_MISMATCH", "VARIABLE_NOT_FOUND")


class Owner:
  """The function object that traces belong to: its server and its name there.

  Attributes:
    traces: how many were registered.
    timeout: of a call, in seconds.
    atomic: whether each call does all that it does to variables, or nothing.
    relaxed: whether each computes forward and backward from a snapshot.
  """

  def __init__(self, bindings, scope, wanted, timeout=math.inf, atomic=False, relaxed=False):
    self.bindings = bindings
    self.scope = scope
    self.wanted = wanted
    self.traces = 0
    self.timeout = timeout
    self.atomic, self.relaxed = atomic, relaxed
    self._name, self._generation = None, -1

  def name(self):
    if self._generation != self.bindings.generation:
      self.rename()
    return self._name

  def rename(self, suffix=""):
    """Takes the next free name: the last one means another function on the server."""
    self._name = self.bindings.function_name(state.scoped(self.scope, self.wanted) + suffix)
    self._generation = self.bindings.generation


_LIMIT = threading.local()


@contextlib.contextmanager
def limited(seconds):
  """Calls of this thread have this timeout, whatever their Owners say."""
  before = getattr(_LIMIT, "seconds", None)
  _LIMIT.seconds = seconds
  try:
    yield
  finally:
    _LIMIT.seconds = before


class _Registration(concrete.Registration):
  """A registration whose captured variables are looked up again before it is sent again."""

  def __init__(self, registration, bindings, captured, variants, named, bind):
    super().__init__(registration.request, registration._graph_def, registration.owners)
    self._bindings = bindings
    self._bind = bind  # Gives the Bounds of handles.
    self._captured = captured  # {graph tensor: Bound}
    self._variants = variants  # {graph tensor: the EagerTensor of a dataset}
    self._named = named  # The Bounds of what the graph names.
    self._note_python()

  def _note_python(self):
    self.calls_python |= any(getattr(owner, "calls_python", False)
                             for owner in self.owners.values())

  def send_first(self, server):
    """As send(), where the server may have lost the variables."""
    try:
      return self.send(server)
    except errors.Error as e:
      if not (self._captured or self._variants or self._named) or (
          e.code not in ("NOT_FOUND", "FAILED_PRECONDITION")):
        raise
    return server._do(self.sending_again(server))

  def sending_again(self, server):
    self._bindings.reattach([*self._captured.values(), *self._named])
    self.owners.update({tensor: bound.remote for tensor, bound in self._captured.items()})
    self.owners.update({tensor: datasets.remote(self._bindings, variant, self._bind, anew=True)
                        for tensor, variant in self._variants.items()})
    self._note_python()
    return self.sending(server)


class Remote:
  """A FuncGraph cut at its inputs and outputs, on the server. Safe to use from many threads.

  Of the graph's inputs the first `inputs` are given with every call, then come those that are
  captured when it is registered, and the rest (captures that change) are given with every call.

  Attributes:
    inputs, captured: how many inputs come first, and the EagerTensors that are captured.
    last_call: when it ran last, by the bindings' clock.
  """

  def __init__(self, owner, graph, inputs, captured, function_type=None, describe=None,
               suffix="", silent=False, outputs=None, shapes=True, left_from=None):
    """
    Args:
      function_type, describe: TensorFlow's FunctionType, and what gives its text.
      suffix: goes after the owner's name.
      silent: what it prints was printed before.
      outputs: by default those that the graph has now; a gradient adds to them later.
      shapes: whether the inputs must have the shapes that they were traced with.
      left_from: the first of the outputs that stay on the server; by default none does.
    """
    self.last_call = 0
    self.inputs, self.captured = inputs, captured
    self._owner = owner
    self._bindings = owner.bindings
    self._graph = graph
    self._end = inputs + len(captured)  # Of what is captured.
    self._function_type = function_type
    self._describe = describe
    self._suffix = suffix
    self._silent = silent
    self._shapes = shapes
    self._left_from = left_from
    self._graph_inputs = list(graph.inputs)
    self._outputs = list(graph.outputs) if outputs is None else outputs
    # What comes out as it went in need not travel.
    places = {id(t): i for i, t in enumerate(graph.inputs)}
    origins = {k: places.get(id(handles.origin(t))) for k, t in enumerate(self._outputs)}
    self._passed = {k: place for k, place in origins.items() if place is not None}
    self._fetched = [t for k, t in enumerate(self._outputs) if k not in self._passed]
    self._dtypes = [t.dtype for t in self._fetched]
    # How many of those come here, where the rest stays.
    self._results = None if left_from is None else sum(
        k < left_from and k not in self._passed for k in range(len(self._outputs)))
    self._concrete, self._generation = None, -1
    self._lock = threading.Lock()
    self._open = None
    self._seeded, self._seed = False, None
    self._on_print = None
    self._counted = False
    self._bound, self._changed = [], []  # What it captures; what a call may change of that.

  def __del__(self):
    """What it has changed is known by its Bounds from now on."""
    for bound in getattr(self, "_changed", ()):
      if self.last_call > bound.synced:
        bound.mark_stale()

  # ----------------------------------------------------------------------------------- registering
  def ensure(self):
    """The ConcreteFunction on the server."""
    if self._generation == self._bindings.generation and (
        not self._seeded or self._seed is _seed()):
      return self._concrete
    with self._bindings.lock:
      if self._generation != self._bindings.generation:
        self._concrete = self._register()
        self._generation = self._bindings.generation
        self._seed = None
      if self._seeded and self._seed is not _seed():
        self._start_sequences()
    return self._concrete

  def _start_sequences(self):
    """Starts the numbers that random ops draw afresh, as tf.random.set_seed does for functions.

    A function has its place in these sequences as long as it is registered.
    """
    seed = _seed()
    if self._seed is not None:
      self._concrete.register_afresh()
    self._seed = seed

  @functools.cached_property
  def _written(self):
    """The places of the graph's inputs that are variables which a call may change."""
    read_only = set(auto_control_deps_utils.get_read_only_resource_input_indices_graph(
        self._graph))
    return frozenset(i for i, t in enumerate(self._graph_inputs)
                     if t.dtype == tf_dtypes.resource and i not in read_only)

  def repeatable(self):
    """Whether another run does the same."""
    return not self._written and not tracing.Effects(tracing.graph_bytes(self._graph)).random

  def _register(self):
    fixed = self._graph_inputs[self.inputs:self._end]
    handles = [(t.name, h, self.inputs + i) for i, (t, h) in enumerate(zip(fixed, self.captured))
               if t.dtype == tf_dtypes.resource]
    bounds = self._bind([h for _, h, _ in handles])
    bound = {name: b for (name, _, _), b in zip(handles, bounds)}
    variants = {t.name: value for t, value in zip(fixed, self.captured)
                if t.dtype == tf_dtypes.variant and _is_dataset(t, value)}
    captures = {t.name: bound[t.name].remote if t.name in bound else
                datasets.remote(self._bindings, value, self._bind) if t.name in variants else value
                for t, value in zip(fixed, self.captured)}
    uses = self._uses(bounds, variants.values())
    graph_def, named = self._graph_bytes()
    self._bound = bounds + [b for b, _ in uses] + named
    self._changed = [b for (_, _, i), b in zip(handles, bounds) if i in self._written]
    self._changed += [b for b, written in uses if written]
    for b in self._changed:
      b.writers.add(self)
    specs = [_spec(t, self._shapes) for t in self._given(self._graph_inputs)]
    signature = None
    if self._function_type is not None and self._end == len(self._graph_inputs):
      signature = tracing.signature(self._function_type)
    effects = tracing.Effects(graph_def)
    self._seeded = effects.seeded
    if self._silent:
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
          retrace=self._owner.traces > 1 and self._describe is not None),
          self._bindings, bound, variants, named, self._bind)
      try:
        answer = registration.send_first(server)
      except errors.Error as e:
        if e.code != "ALREADY_EXISTS":
          raise
        self._owner.rename()
        continue
      if not (answer.existed and self._seeded):
        made = concrete.ConcreteFunction(server, answer.function, answer.epoch, registration,
                                         answer.existed)
        self._bindings.dropped.made(made)
        return made
      # Another process's: each has a place of its own in the sequences.
      self._owner.rename("_" + server._channel.origin.client_id[:8])
    raise errors.Error("ALREADY_EXISTS", "no free name for function '%s'" % self._owner.wanted)

  def _graph_bytes(self):
    """The graph as tracing.graph_bytes() has it, and the Bounds of what it names of this process."""
    parsed = self._graph.as_graph_def()
    graph_def = tracing.normal_bytes(parsed)
    named = self._bindings.names.of(parsed)
    if not named:
      return graph_def, []
    bounds = self._bindings.bind([one for one, _ in named], self._owner.scope)
    for bound, (_, nodes) in zip(bounds, named):
      loaded.rename(nodes, bound.remote.name)
    return parsed.SerializeToString(deterministic=True), bounds

  def _uses(self, bounds, variants):
    """What datasets and iterators use besides, as datasets.uses() has it."""
    return [use for b in bounds for use in b.uses] + [
        use for variant in variants for use in datasets.uses(self._bindings, variant)]

  def _bind(self, given):
    """The Bounds of the variables that the given handles belong to."""
    if not given:
      return []
    bounds = [self._bindings.known(h) for h in given]
    epoch = self._bindings.server._channel.epoch
    if all(b is not None and b.epoch == epoch for b in bounds):
      return bounds
    return self._bindings.bind([handles.variable_of(h) for h in given], self._owner.scope)

  # --------------------------------------------------------------------------------------- running
  def run(self, args):
    """Runs it on EagerTensors, one for each input of the graph. Returns one for each output."""
    if not self._captures(args[self.inputs:self._end]):
      return self._opened().run(args)
    try:
      outputs = self._run_on(args)
    except errors.Error as e:
      if e.code != "INVALID_ARGUMENT" or self._fits(args):
        raise intermediates.gone(e, self._owner.wanted) if any(
            map(intermediates.of, args)) else e
      return self._opened().run(args)
    made = self._made(outputs)
    for place in sorted(self._passed):
      made.insert(place, handles.passed_on(args[self._passed[place]]))
    return made

  def _run_on(self, args):
    """The outputs of a call with these EagerTensors, as they came."""
    function = self.ensure()
    parts, kept, variables, variants = [None], [], [], []
    for i, t in enumerate(self._given(args)):
      if intermediates.of(t) is not None:
        kept.append((len(parts), intermediates.of(t)))
        parts.append(None)
      elif t.dtype == tf_dtypes.resource:
        variables.append((len(parts), getattr(t, "_formwork_handle", t),
                          self._place(i) in self._written))
        parts.append(None)
      elif datasets.is_one(t):
        variants.append((len(parts), t))
        parts.append(None)
      else:
        eager.append(parts, t)
    bounds = self._bind([handle for _, handle, _ in variables])
    changed = [b for b, (_, _, written) in zip(bounds, variables) if written]

    def exchange(anew=False):
      made = [(place, datasets.remote(self._bindings, t, self._bind, anew))
              for place, t in variants]
      made += [(place, b.remote) for b, (place, _, _) in zip(bounds, variables)]
      if any(getattr(owner, "calls_python", False) for _, owner in made):
        function.answer_python()
      uses = self._uses(bounds, [t for _, t in variants])
      changed.extend(b for b, written in uses if written and b not in changed)
      return self._exchange(function, parts, kept + made, bounds + [b for b, _ in uses])

    try:
      try:
        return exchange()
      except errors.Error as e:
        if not (bounds and e.reason in _LOST_VARIABLE or variants and datasets.is_gone(e)):
          raise
      self._bindings.reattach(bounds)
      return exchange(anew=True)
    finally:
      for b in changed:
        b.mark_stale()
      self._bindings.after_call(changed)

  def _made(self, outputs):
    """The EagerTensors of a call's outputs."""
    if self._results is None:
      return self._to_eager(outputs)
    left = [kept and intermediates.Intermediate(kept) for kept in outputs[self._results:]]
    if None in left:
      raise self._cannot_leave(self._results + left.index(None))
    device = context.context().device_name
    return self._to_eager(outputs[:self._results]) + [
        intermediates.stand_in(one, device) for one in left]

  def _to_eager(self, values):
    made = []
    for i, (value, dtype) in enumerate(zip(values, self._dtypes)):
      if not isinstance(value, np.ndarray) and value.WhichOneof("kind") != "tensor":
        raise self._cannot_leave(i)
      made.append(eager.from_value(value, dtype))
    return made

  def _cannot_leave(self, i):
    dtype = self._dtypes[i]
    if self._suffix == BACKWARD and dtype == tf_dtypes.variant:
      return intermediates.of_higher_order(self._owner.wanted)
    return errors.Error("UNIMPLEMENTED", "%s: output %d is a %s, which cannot leave the server" % (
        self._owner.wanted, i, dtype.name))

  def _captures(self, values):
    """Whether these are the values that it captures."""
    return all(map(operator.is_, values, self.captured))

  def _opened(self):
    """The same for whatever is given and captured, of whatever shapes.

    ConcreteFunctions can be given other captures; called with flat arguments they look at no
    shapes.
    """
    if self._open is None:
      self._open = Remote(self._owner, self._graph, len(self._graph_inputs), [],
                          suffix=self._suffix, silent=self._silent, outputs=self._outputs,
                          shapes=False, left_from=self._left_from)
    return self._open

  def _fits(self, args):
    """Whether the arguments have the shapes that calls must have."""
    return not self._shapes or all(
        spec.dtype == tf_dtypes.resource or intermediates.of(t) is not None or
        spec.shape.is_compatible_with(t.shape)
        for spec, t in zip(self._graph_inputs, args))

  def _given(self, inputs):
    """Those of all inputs that are given with every call."""
    return inputs if not self.captured else [*inputs[:self.inputs], *inputs[self._end:]]

  def _timeout(self):
    limit = getattr(_LIMIT, "seconds", None)
    return self._owner.timeout if limit is None else limit

  def _exchange(self, function, parts, owners=(), given=()):
    """The call itself; before and after it the values that are used in this process too.

    given: the Bounds of variables that are arguments.
    """
    self._bindings.before_call([*self._bound, *given] if given else self._bound)
    try:
      outputs = function.run(parts, self._timeout(), self._on_print, owners, self._results,
                             intermediates.KEEP_FOR, self._owner.atomic,
                             self._owner.relaxed)
      self._bindings.dropped.called(function)
      return outputs
    finally:
      self.last_call = next(self._bindings.clock)
      self._bindings.after_call(self._changed)

  def takes(self, tensors):
    """Whether these are what a call sends, and all of it: for run_tensors."""
    return (self.inputs == len(tensors) and not self._passed and
            self._end == len(self._graph_inputs) and all(
                t.dtype.as_numpy_dtype == x.dtype if isinstance(x, np.ndarray) else
                t.dtype == x.dtype and t.dtype != tf_dtypes.resource
                for t, x in zip(self._graph_inputs, tensors)))

  def run_tensors(self, tensors, captured):
    """As run(), for EagerTensors and arrays that are all that a call sends."""
    if not self._captures(captured):
      tensors = [ops.convert_to_tensor(t) for t in tensors]
      captured = [c() if callable(c) else c for c in captured]
      return self._opened().run(nest.flatten([tensors, captured], expand_composites=True))
    function = self.ensure()
    parts = [None]
    for t in tensors:
      if type(t) is np.ndarray:
        wire.append_tensor(parts, *wire.to_array(t))
      else:
        eager.append(parts, t)
    return self._made(self._exchange(function, parts))

  def _place(self, i):
    """The place among the graph's inputs of the i-th input of a call."""
    return i if i < self.inputs else i + len(self.captured)


def _seed():
  """What tf.random.set_seed replaces: another object after each call of it."""
  ctx = context.context()
  return getattr(ctx, "_rng", ctx)


def _spec(t, with_shape):
  dtype = t.dtype.base_dtype
  shape = None
  if dtype == tf_dtypes.resource:
    shape = []
  elif with_shape:
    shape = tracing.shape_list(t.shape)
  return types.TensorSpec(t.name, dtype.name, shape)


def _is_dataset(placeholder, value):
  if datasets.is_one(value):
    return True
  raise errors.Error("UNIMPLEMENTED", "capture '%s' is a variant (an Optional or a list of "
                     "tensors), which cannot be sent: pass its elements" % placeholder.name)
