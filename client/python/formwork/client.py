"""connect() and Server: a namespace of one Formwork server."""
from formwork import channel as channel_lib
from formwork import concrete
from formwork import dtypes
from formwork import errors
from formwork import resources
from formwork import types
from formwork import wire
from formwork.v1 import graph_service_pb2 as service_pb2

_NOT_GIVEN = object()


def connect(target, namespace="default", timeout=60, on_restart="raise"):
  """A Server, once it is ready.

  Args:
    target: "host:port" or "unix:/path".
    namespace: where functions and variables live.
    timeout: seconds to wait for the server, and the default deadline of every request.
    on_restart: what a call does whose tf.Variables the server has lost (restarted, or cleared by
      another process): "raise" an error that says which and how to go on, or "push" the values
      that they have here, with a warning. Functions without variables go on in either case.
  Errors: UNAVAILABLE if no server is ready in time.
  """
  if on_restart not in ("raise", "push"):
    raise ValueError("on_restart: expected \"raise\" or \"push\", got %r" % (on_restart,))
  channel = channel_lib.Channel(target, timeout)
  try:
    channel.wait_until_ready()
  except BaseException:
    channel.close()
    raise
  return Server(channel, namespace, on_restart)


class Server:
  """A namespace of a server. Safe to use from many threads; a context manager that closes it."""

  def __init__(self, channel, namespace, on_restart="raise"):
    self._channel = channel
    self.on_restart = on_restart
    self._sent_graphs = set()  # (fingerprint, epoch)
    self._bindings = None  # tf.Variables and functions; made where TensorFlow is used.
    self.namespace = namespace
    encoded = namespace.encode()
    self._call_head = b"\x0a" + wire.varint(len(encoded)) + encoded

  # ------------------------------------------------------------------------------------ functions
  def register(self, name, graph_def, inputs, outputs, captures=None, targets=(), signature=None,
               replace=False, pretty_signature="", retrace=False, timeout=None):
    """Makes a ConcreteFunction of a cut of a graph.

    Args:
      name: of the function; ConcreteFunctions of other signatures may share it.
      graph_def: a serialized GraphDef, its function library included.
      inputs: TensorSpecs: graph tensors, in the order of a call's values.
      outputs: names of graph tensors, in order.
      captures: {graph tensor: Variable, KeptTensor or value}.
      targets: names of nodes that are run for their effect.
      signature: a FunctionType; by default the flat inputs.
      replace: takes the place of what has this name and type.
      pretty_signature: the text that `formwork describe` shows.
      retrace: this trace was made because an earlier one did not fit; counted.
    Errors: INVALID_ARGUMENT with all culprits; UNIMPLEMENTED lists ops that are missing;
      ALREADY_EXISTS where the name and type are taken by another graph or other captures.
    """
    registration = self._registration(name, graph_def, inputs, outputs, captures, targets,
                                      signature, replace, pretty_signature, retrace)
    info, existed = registration.send(self, timeout)
    return concrete.ConcreteFunction(self, info, registration, existed)

  def _registration(self, name, graph_def, inputs, outputs, captures=None, targets=(),
                    signature=None, replace=False, pretty_signature="", retrace=False):
    request = service_pb2.RegisterRequest(
        namespace=self.namespace, name=name, inputs=[spec.to_message() for spec in inputs],
        outputs=list(outputs), targets=list(targets), replace=replace,
        pretty_signature=pretty_signature, retrace=retrace)
    for tensor, value in (captures or {}).items():
      request.captures.add(tensor=tensor, value=resources.value_message(
          value, what="capture '%s'" % tensor))
    if signature is not None:
      request.signature.CopyFrom(signature.to_message())
    return concrete.Registration(request, bytes(graph_def))

  def resolve(self, name, signature, timeout=None):
    """The ConcreteFunction that a call of this type goes to.

    Errors: NoMatchingSignature; a plain NOT_FOUND for an unknown name.
    """
    answer = self._request("Resolve", service_pb2.ResolveRequest(
        namespace=self.namespace, name=name, signature=signature.to_message()), timeout)
    return concrete.ConcreteFunction(self, answer.function)

  def call(self, name, inputs, timeout=None, on_print=None, keep=False):
    """Calls a function by name; the types of the inputs choose the ConcreteFunction.

    Returns one value per output: numpy arrays, or with `keep` KeptTensors.
    """
    encoded = name.encode()
    head = self._call_head + b"\x1a" + wire.varint(len(encoded)) + encoded
    parts = [head + concrete._KEEP if keep else head]
    for i, value in enumerate(inputs):
      if isinstance(value, (resources.Variable, resources.KeptTensor)):
        wire.append_value(parts, resources.value_message(value))
      else:
        wire.append_tensor(parts, *wire.to_array(value, what="%s: input %d" % (name, i)))
    return [self._output(v) for v in self._call(parts, timeout, on_print).outputs]

  def functions(self, timeout=None):
    """The ConcreteFunctions of the namespace."""
    answer = self._request("ListFunctions", service_pb2.ListFunctionsRequest(
        namespace=self.namespace), timeout)
    return [concrete.ConcreteFunction(self, info) for info in answer.functions]

  def describe(self, name, timeout=None):
    """A text: the signatures of a function, as pretty_printed_concrete_signatures has them."""
    return self._request("DescribeFunction", service_pb2.DescribeFunctionRequest(
        namespace=self.namespace, name=name), timeout).text

  # ------------------------------------------------------------------------------------ variables
  def variable(self, name, initial_value=None, dtype=None, shape=_NOT_GIVEN, timeout=None):
    """Creates a variable, or attaches to the one of this name (its value stays as it is).

    Args:
      initial_value: None leaves it uninitialised; then dtype and shape are needed.
      shape: beside a value, the declared shape, where wider than the value's; None: unknown rank.
    Errors: INVALID_ARGUMENT where one with another dtype or shape is there.
    """
    request = service_pb2.CreateVariableRequest(namespace=self.namespace, name=name)
    if initial_value is not None:
      number = None if dtype is None else dtypes.number(dtype)
      request.initial_value.CopyFrom(wire.tensor_message(
          initial_value, number, "variable '%s'" % name))
      request.dtype = request.initial_value.dtype
      if shape is _NOT_GIVEN:
        shape = request.initial_value.dims
    else:
      if dtype is None:
        raise errors.invalid("variable '%s': neither an initial value nor a dtype" % name)
      request.dtype = dtypes.number(dtype)
      if shape is _NOT_GIVEN:
        shape = None
    request.shape.CopyFrom(types.shape_message(shape))
    answer = self._request("CreateVariable", request, timeout)
    return resources.Variable(self, answer.variable, answer.existed)

  def variables(self, timeout=None):
    """The Variables of the namespace."""
    answer = self._request("ListVariables", service_pb2.ListVariablesRequest(
        namespace=self.namespace), timeout)
    return [resources.Variable(self, info) for info in answer.variables]

  # ---------------------------------------------------------------------------------------- whole
  def clear(self, timeout=None):
    """Removes all functions, variables and kept tensors of the namespace."""
    if self._bindings is not None:
      self._bindings.forget()
    self._request("Clear", service_pb2.ClearRequest(namespace=self.namespace), timeout)

  def close(self):
    self._channel.close()

  def __deepcopy__(self, memo):
    return self

  def __reduce__(self):
    return connect, (self._channel.target, self.namespace, self._channel.timeout)

  def __enter__(self):
    return self

  def __exit__(self, *unused):
    self.close()

  def __repr__(self):
    return "<formwork.Server %s, namespace %r>" % (self._channel.target, self.namespace)

  # ----------------------------------------------------------------------------- with TensorFlow
  def function(self, func=None, input_signature=None, *, reduce_retracing=False, scope="",
               **options):
    """As tf.function: traces here, runs on the server. Also a decorator without arguments.

    Args:
      func: a Python function, or what tf.function made of one.
      input_signature, reduce_retracing: as tf.function's; so are further options.
      scope: put before the names of function and variables on the server.
    """
    from formwork import function as function_lib  # Imports TensorFlow.
    make = lambda f: function_lib.make(self, f, scope, input_signature=input_signature,
                                       reduce_retracing=reduce_retracing, **options)
    return make if func is None else make(func)

  def push(self, variables=None, scope=""):
    """Copies the values of tf.Variables here to the server; creates what is not there.

    variables: a Keras model or optimizer, a tf.Module, a tf.Variable, or a structure of these; by
      default all that this process has on the server.
    """
    from formwork import state  # Imports TensorFlow.
    state.of(self).push(variables, scope)

  def pull(self, variables, scope=""):
    """Copies the values on the server to tf.Variables here. What is not there keeps its value.

    Errors: NOT_FOUND where none of them is on the server.
    """
    from formwork import state  # Imports TensorFlow.
    state.of(self).pull(variables, scope)

  # --------------------------------------------------------------------------- for this package
  def _request(self, method, message, timeout=None):
    return self._channel.request(method, message, timeout)

  def _call(self, parts, timeout, on_print):
    """One call: the pieces of a CallRequest for a wire.Response; prints what it printed."""
    if timeout is None:
      timeout = self._channel.timeout
    parts[0] += b"\x30" + wire.varint(max(1, int(timeout * 1e6)))
    answer = wire.decode_response(self._channel.call(b"".join(parts), timeout))
    self._channel.epoch = answer.epoch
    if answer.printed:
      for text in answer.printed:
        (on_print or concrete.print_to_stderr)(text)
    if answer.error is not None:
      error = errors.from_response(answer.error)
      if not answer.printed:
        for text in error.details.printed:
          (on_print or concrete.print_to_stderr)(text)
      raise error
    return answer

  def _output(self, value):
    """One entry of a CallResponse's outputs, as callers get it."""
    if not hasattr(value, "WhichOneof"):
      return value.copy()
    kind = value.WhichOneof("kind")
    if kind == "tensor":
      return wire.from_message(value.tensor)
    if kind == "kept_tensor_id":
      return resources.KeptTensor(self, value.kept_tensor_id)
    return None
