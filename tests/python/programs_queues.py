"""More programs for test_function.py: queues, stacks, staging areas and maps of sparse tensors."""
import tensorflow as tf

from programs import caught
from programs import program

raw = tf.raw_ops


def _named(queue, name, types, shapes=(), **attrs):
  """A queue of that name, which the process shares: a program has its own."""
  return queue(component_types=types, shapes=list(shapes), shared_name="queue of " + name, **attrs)


def _fifo(name, types, shapes=(), capacity=10):
  return _named(raw.FIFOQueueV2, name, types, shapes, capacity=capacity)


def _enqueue(queue, *components):
  raw.QueueEnqueueV2(handle=queue, components=components)


def _dequeue(queue, *types):
  return raw.QueueDequeueV2(handle=queue, component_types=types)


def _many(queue, n, *types, op=raw.QueueDequeueManyV2):
  return op(handle=queue, n=n, component_types=types)


def _up_to(queue, n, *types):
  return _many(queue, n, *types, op=raw.QueueDequeueUpToV2)


def _size(queue):
  return raw.QueueSizeV2(handle=queue)


@program
def elements_of_several_dtypes(function):
  types = tf.float32, tf.string, tf.int64

  @function
  def f():
    queue = _fifo("several", types)
    _enqueue(queue, 1.5, "a", tf.constant([7, 8], tf.int64))
    _enqueue(queue, [2.5], ["b", ""], tf.constant(9, tf.int64))
    size = _size(queue)
    return size, _dequeue(queue, *types), _dequeue(queue, *types), _size(queue)

  return f(), f()


@program
def elements_from_call_to_call(function):
  @function
  def put(x):
    queue = _fifo("calls", [tf.float32], [[2]])
    _enqueue(queue, x)
    return _size(queue)

  @function
  def take():
    queue = _fifo("calls", [tf.float32], [[2]])
    return _dequeue(queue, tf.float32), _size(queue)

  return [put(tf.constant([1., 2.])), put(tf.constant([3., 4.])), take(), put(tf.constant([5., 6.])),
          take(), take()]


@program
def batches_of_elements(function):
  types = tf.float32, tf.string

  @function
  def f(n):
    queue = _fifo("batches", types, [[2], []])
    raw.QueueEnqueueManyV2(handle=queue, components=[
        tf.reshape(tf.range(10.), [5, 2]), ["a", "b", "c", "d", "e"]])
    taken = _many(queue, n, *types), _many(queue, 0, *types), _many(queue, 5 - n, *types)
    raw.QueueEnqueueManyV2(handle=queue, components=[tf.zeros([0, 2]), tf.zeros([0], tf.string)])
    return taken, _size(queue)

  return f(tf.constant(3)), f(tf.constant(1))


@program
def queues_that_are_closed(function):
  @function
  def put(x):
    _enqueue(_fifo("closed", [tf.int32], [[]]), x)

  @function
  def close(cancels=False):
    queue = _fifo("closed", [tf.int32], [[]])
    raw.QueueCloseV2(handle=queue, cancel_pending_enqueues=cancels)
    return raw.QueueIsClosedV2(handle=queue)

  @function
  def take():
    return _dequeue(_fifo("closed", [tf.int32], [[]]), tf.int32)

  @function
  def take_many(n):
    return _many(_fifo("closed", [tf.int32], [[]]), n, tf.int32)

  @function
  def take_up_to(n):
    return _up_to(_fifo("closed", [tf.int32], [[]]), n, tf.int32)

  for i in range(4):
    put(tf.constant(i))
  return [close(), caught(put, tf.constant(9)), take(), caught(take_many, 4), take_up_to(2),
          caught(close), close(True), take_up_to(2), caught(take), caught(take_up_to, 1),
          take_many(0)]


@program
def elements_in_loops(function):
  @function
  def f():
    queue = _fifo("loops", [tf.int32], [[]])
    for i in tf.range(8):
      _enqueue(queue, i * i)
    total = tf.constant(0)
    while _size(queue) > 2:
      total += tf.ensure_shape(_dequeue(queue, tf.int32)[0], [])
    if total > 10:
      _enqueue(queue, total)
    return total, _many(queue, 3, tf.int32)

  return f(), f()


@program
def padded_batches(function):
  types = tf.float32, tf.string

  @function
  def f():
    queue = _named(raw.PaddingFIFOQueueV2, "padded", types, [[None, 2], [None]])
    for n, texts in [(1, ["a"]), (3, []), (0, ["b", "c"])]:
      _enqueue(queue, tf.fill([n, 2], float(n)), tf.constant(texts, tf.string, [len(texts)]))
    raw.QueueEnqueueManyV2(handle=queue, components=[tf.ones([2, 1, 2]), [["x"], ["y"]]])
    return _many(queue, 4, *types), _dequeue(queue, *types), _many(queue, 0, *types)

  return f(), f()


@program
def elements_by_priority(function):
  types = tf.int64, tf.string

  @function
  def f():
    queue = _named(raw.PriorityQueueV2, "priority", types[1:], [[]])
    raw.QueueEnqueueManyV2(handle=queue, components=[
        tf.constant([5, -1, 3, 9], tf.int64), ["five", "minus one", "three", "nine"]])
    first = _dequeue(queue, *types)
    _enqueue(queue, tf.constant(4, tf.int64), "four")
    return first, _many(queue, 3, *types), _dequeue(queue, *types)

  return f(), f()


@program
def shuffled_elements(function):
  @function
  def f():
    queue = _named(raw.RandomShuffleQueueV2, "shuffled", [tf.int32], [[]], capacity=100, seed=3,
                   seed2=5, min_after_dequeue=10)
    raw.QueueEnqueueManyV2(handle=queue, components=[tf.range(60)])
    first, one = _many(queue, 7, tf.int32), _dequeue(queue, tf.int32)
    raw.QueueEnqueueManyV2(handle=queue, components=[tf.range(100, 120)])
    more = _many(queue, 30, tf.int32)
    raw.QueueCloseV2(handle=queue)
    return first, one, more, _up_to(queue, 50, tf.int32)

  return f(), caught(f)


@program
def elements_that_do_not_fit(function):
  def adds(shape, *components, op=raw.QueueEnqueueV2):
    @function
    def f():
      queue = _fifo("misfits %s" % (shape,), [tf.float32, tf.int32], [] if shape is None else [shape, []])
      op(handle=queue, components=components)
      return _size(queue)
    return caught(f)

  many = raw.QueueEnqueueManyV2
  return [adds([2], [1., 2.], 3), adds([2], [1.], 3), adds([2], [1., 2.], [3]), adds([2], [1., 2.]),
          adds([2], [1, 2], 3), adds(None, [[1.]], [3]), adds(None, [1., 2.], [3], op=many),
          adds([2], [[1., 2.]], [3], op=many), adds([2], [[1.]], [3], op=many)]


@program
def batches_without_shapes(function):
  @function
  def take(n):
    queue = _fifo("no shapes", [tf.float32])
    return _many(queue, n, tf.float32)

  return caught(take, 1), caught(take, -1)


@program
def staging_areas(function):
  types = tf.float32, tf.string
  area = dict(dtypes=types, shared_name="staged")

  @function
  def stage(x, text):
    raw.Stage(values=[x, text], shared_name=area["shared_name"])
    return raw.StageSize(**area)

  @function
  def unstage():
    return raw.StagePeek(index=1, **area), raw.Unstage(**area), raw.StageSize(**area)

  @function
  def clear():
    raw.StageClear(**area)
    return raw.StageSize(**area)

  sizes = [stage(tf.fill([i], float(i)), tf.constant("text %d" % i)) for i in range(4)]
  return sizes, unstage(), unstage(), clear(), stage(tf.ones([2]), tf.constant("again"))


def _staging_map(function, ordered):
  types = tf.float32, tf.string
  area = dict(dtypes=types, shared_name="staged by key, %s" % ordered)
  op = lambda name: getattr(raw, ("OrderedMap" if ordered else "Map") + name)
  key = lambda k: tf.constant(k, tf.int64)

  @function
  def stage(k, i, *values):
    op("Stage")(key=k, indices=i, values=values, **area)
    return op("Size")(**area), op("IncompleteSize")(**area)

  @function
  def peek(k):
    return op("Peek")(key=k, indices=[0, 1], **area)

  @function
  def unstage(k):
    texts = op("Unstage")(key=k, indices=[1], dtypes=types[1:], shared_name=area["shared_name"])
    rest = op("Unstage")(key=k, indices=[0], dtypes=types[:1], shared_name=area["shared_name"])
    return texts, rest, op("Size")(**area)

  @function
  def first():
    return op("UnstageNoKey")(indices=[0, 1], **area)

  one, two = tf.constant([0]), tf.constant([1])
  results = [stage(key(7), one, tf.constant([1., 2.])), stage(key(7), two, tf.constant("seven")),
             stage(key(3), tf.constant([0, 1]), tf.constant(3.), tf.constant("three")),
             stage(key(9), two, tf.constant("nine")), caught(stage, key(9), two, tf.constant("9")),
             caught(stage, key(9), tf.constant([2]), tf.constant("9")),
             caught(stage, key(9), tf.constant([1, 0]), tf.constant("9"), tf.constant(9.)),
             peek(key(3)), unstage(key(7)), first()]

  @function
  def clear():
    op("Clear")(**area)
    return op("Size")(**area), op("IncompleteSize")(**area)

  return results, clear()


@program
def staging_maps(function):
  return _staging_map(function, ordered=False)


@program
def ordered_staging_maps(function):
  return _staging_map(function, ordered=True)


@program
def maps_of_sparse_tensors(function):
  name = dict(shared_name="sparse tensors")

  @function
  def put(x):
    x = tf.sparse.from_dense(x)
    return raw.AddSparseToTensorsMap(sparse_indices=x.indices, sparse_values=x.values,
                                     sparse_shape=x.dense_shape, **name)

  @function
  def put_many(x):
    x = tf.sparse.from_dense(x)
    return raw.AddManySparseToTensorsMap(sparse_indices=x.indices, sparse_values=x.values,
                                         sparse_shape=x.dense_shape, **name)

  @function
  def take(handles):
    return raw.TakeManySparseFromTensorsMap(sparse_handles=handles, dtype=tf.float32, **name)

  many = put_many(tf.constant([[1., 0., 2.], [0., 0., 0.], [0., 3., 0.]]))
  one = put(tf.constant([0., 0., 0., 4.]))
  return (take(tf.stack([many[2], one, many[0]])), take(many[1:2]), caught(take, many[:1]),
          caught(take, tf.constant([one.numpy() + 100])))


def _stack(max_size=-1, elem_type=tf.float32):
  return raw.StackV2(max_size=max_size, elem_type=elem_type, stack_name="s")


@program
def stacks_over_loops(function):
  """As a loop of TensorFlow 1 keeps what its gradient takes again."""
  @function
  def f(x, n):
    stack = _stack(n)
    def forwards(i, x):
      return i + 1, raw.StackPushV2(handle=stack, elem=x * tf.cast(i, tf.float32) + 1.)
    i, y = tf.while_loop(lambda i, _: i < n, forwards, [0, x])
    def backwards(i, g):
      x = tf.ensure_shape(raw.StackPopV2(handle=stack, elem_type=tf.float32), [2])
      return i - 1, g + x * tf.cast(i, tf.float32)
    _, g = tf.while_loop(lambda i, _: i > 0, backwards, [i, tf.zeros_like(x)])
    raw.StackCloseV2(handle=stack)
    return y, g

  x = tf.constant([1., -2.])
  return f(x, 5), f(x, 0), f(x, 300)


@program
def stacks_of_elements(function):
  @function
  def f():
    stack = _stack(elem_type=tf.string)
    for x in ["a"], [["b", "c"]], "":
      raw.StackPushV2(handle=stack, elem=tf.constant(x))
    pop = lambda: raw.StackPopV2(handle=stack, elem_type=tf.string)
    return pop(), pop(), raw.StackPushV2(handle=stack, elem="d"), pop(), pop()

  return f(), f()


@program
def stacks_that_refuse(function):
  def push(stack, x=1.):
    return raw.StackPushV2(handle=stack, elem=x)

  def pop(stack):
    return raw.StackPopV2(handle=stack, elem_type=tf.float32)

  def overflows():
    stack = _stack(max_size=1)
    push(stack)
    return push(stack)

  def is_empty():
    return pop(_stack())

  def is_closed(op):
    stack = _stack()
    push(stack)
    raw.StackCloseV2(handle=stack)
    return op(stack)

  def takes_another_dtype():
    return push(_stack(), 1)

  def has_no_size():
    return push(_stack([1, 2]))

  calls = (overflows, is_empty, lambda: is_closed(push), lambda: is_closed(pop),
           takes_another_dtype, has_no_size)
  return [caught(function(f, autograph=False)) for f in calls]
