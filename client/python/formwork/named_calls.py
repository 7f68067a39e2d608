"""Calls of functions by their names, with values by the names of parameters.

What a function of a name takes is asked for once, so that a call is one request.
"""
from formwork import concrete
from formwork import dtypes
from formwork import errors
from formwork import kept_tensors
from formwork import resources
from formwork import wire

_MOST_NAMES = 256  # Of functions that are kept.
_MOST_TEXTS = 10  # Functions in an error's text.


def calling(server, name, values, options):
  """The operation of Server.call with {parameter: value}: a dict by names of outputs, or a list.

  options: those of concrete.calling, in order.
  """
  functions, asked = server._named_calls.get(name), 0
  while True:
    operation = functions and functions.operation(values, options, may_refuse=asked)
    if operation is not None:
      try:
        return (yield from operation)
      except errors.Error as e:
        if not _is_gone(e, asked):
          raise
    functions, asked = (yield from _asking(server, name, options[0])), asked + 1


def _is_gone(error, asked):
  """Whether nothing was done because what was called is not there any more.

  asked: how often it was asked for what is there.
  """
  if error.reason == "FUNCTION_NOT_FOUND":
    return asked < concrete.MOST_LOOKS
  return not asked and (error.reason == "NO_MATCHING_SIGNATURE" or
                        error.reason == "VARIABLE_DELETED" and error.effects == "none")


def _asking(server, name, timeout):
  """The Functions of a name, as they are now."""
  found = [f for f in (yield from server._listing_functions(name, timeout)) if f.name == name]
  if not found:
    server._named_calls.pop(name, None)
    error = errors.Error("NOT_FOUND", "there is no function '%s'" % name)
    error.reason, error.effects = "FUNCTION_NOT_FOUND", "none"
    raise error
  if len(server._named_calls) >= _MOST_NAMES:
    server._named_calls.clear()
  made = server._named_calls[name] = Functions(server, name, found)
  return made


class Functions:
  """The ConcreteFunctions of one name, as they were when they were asked for."""

  def __init__(self, server, name, functions):
    self._name, self._all = name, functions
    alike = {}  # {names of parameters: ConcreteFunctions}
    for f in functions:
      if f._names.places is not None:
        alike.setdefault(frozenset(f._names.places), []).append(f)
    self._alike = {names: _Alike(server, name, some, functions) for names, some in alike.items()}

  def operation(self, values, options, may_refuse):
    """A call of what takes {parameter: value}; None, unless `may_refuse`, where nothing does."""
    try:
      alike = self._alike.get(frozenset(values))
      if alike is None:
        raise self._none_takes(values)
      return alike.operation(values, options, may_refuse)
    except errors.Error:
      if may_refuse:
        raise
      return None

  def names_of(self, function_id):
    """The names.Names of one; None where it is none of these."""
    return next((f._names for f in self._all if f.id == function_id), None)

  def _none_takes(self, values):
    if len(self._all) == 1:
      self._all[0]._names.ordered(values)  # Raises what differs.
    texts = [f._names.text for f in self._all[:_MOST_TEXTS]]
    if len(self._all) > _MOST_TEXTS:
      texts.append("and %d more" % (len(self._all) - _MOST_TEXTS))
    return errors.invalid("%s: none of the functions of this name has the parameters (%s): they take "
                          "%s" % (self._name, ", ".join(map(str, values)), ", ".join(texts)))


class _Alike:
  """ConcreteFunctions of one name whose parameters have the same names.

  One of them is called as it is. Among several the server chooses, by the types of the inputs.
  """

  def __init__(self, server, name, functions, all_of_name):
    # One that cannot be called any more gives way to others.
    functions = [f for f in functions if not f._broken] or functions
    self._server, self._name, self._functions = server, name, functions
    self._names = functions[0]._names
    self._by_id = {f.id: f._names for f in functions}
    numbers = (set(of_one_input) for of_one_input in zip(*(f._numbers for f in functions)))
    self._numbers = [same.pop() if len(same) == 1 else None for same in numbers]
    self._what = [""] * len(self._numbers)
    for parameter, place in self._names.places.items():
      self._what[place] = "%s: input '%s'" % (name, parameter)
    # What the server may choose among.
    rivals = [f for f in all_of_name if len(f.inputs) == len(self._numbers)]
    self._can_choose = all(f._names.places == self._names.places for f in rivals)

  def operation(self, values, options, may_refuse):
    ordered = self._names.ordered(values)
    parts, owners, fits = [None], [], True
    for i, value in enumerate(ordered):
      number, what = self._numbers[i], self._what[i]
      if number == dtypes.RESOURCE or isinstance(
          value, (resources.Resource, kept_tensors.KeptTensor)):
        concrete.append_input(self._server, parts, owners, value, number, what)
      else:
        array, number = wire.to_array(value, number, what)
        wire.append_tensor(parts, array, number)
        fits = fits and any(_fits(array.shape, f.inputs[i].shape) for f in self._functions)
    if not fits and not may_refuse:
      return None  # Where nothing else is there either, the server says what is wrong.
    if len(self._functions) == 1:
      return self._functions[0]._calling_by_names(parts, owners, *options)
    if not self._can_choose:
      raise errors.invalid(
          "%s: the server cannot choose by names among functions of this name, which take as many "
          "inputs in different orders: call one of server.functions(%r)" % (
              self._name, self._name))
    return self._server._calling(self._name, ordered, parts, owners, options,
                                 lambda function_id: self._names_of(function_id, options[0]))

  def _names_of(self, function_id, timeout):
    """The operation: the Names of the function that was called."""
    if function_id in self._by_id:
      return self._by_id[function_id]
    try:  # It was registered since.
      functions = yield from _asking(self._server, self._name, timeout)
      names = functions.names_of(function_id)
      if names is not None and names.places == self._names.places:
        return names
    except errors.Error:
      pass
    error = errors.Error("ABORTED", "%s: called was a function that was registered meanwhile, and "
                         "has other parameters or is not there any more" % self._name)
    error.effects = "all"
    raise error


def _fits(shape, wanted):
  return wanted is None or len(shape) == len(wanted) and all(
      w is None or d == w for d, w in zip(shape, wanted))
