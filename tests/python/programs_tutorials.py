"""More programs for test_function.py: in the manner of TensorFlow's tutorials."""
import keras
import numpy as np
import tensorflow as tf

from programs import program

layers = keras.layers


@program
def epochs_with_metrics(function):
  random = np.random.default_rng(0)
  x = random.normal(size=(20, 8, 8, 1)).astype(np.float32)
  y = np.arange(20) % 3

  class Net(keras.Model):

    def __init__(self):
      super().__init__()
      self.conv, self.flatten = layers.Conv2D(4, 3, activation="relu"), layers.Flatten()
      self.hidden, self.out = layers.Dense(8, activation="relu"), layers.Dense(3)

    def call(self, x):
      return self.out(self.hidden(self.flatten(self.conv(x))))

  model, optimizer = Net(), keras.optimizers.Adam()
  loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
  loss, accuracy = keras.metrics.Mean(), keras.metrics.SparseCategoricalAccuracy()

  @function
  def train_step(x, y):
    with tf.GradientTape() as tape:
      p = model(x, training=True)
      l = loss_of(y, p)
    optimizer.apply_gradients(zip(tape.gradient(l, model.trainable_variables),
                                  model.trainable_variables))
    loss(l)
    accuracy(y, p)

  for epoch in range(2):
    loss.reset_state()
    accuracy.reset_state()
    for a, b in tf.data.Dataset.from_tensor_slices((x, y)).batch(8):
      train_step(a, b)
    print("epoch %d: loss %.3f, accuracy %.3f" % (epoch, loss.result(), accuracy.result()))
  return train_step.experimental_get_tracing_count(), model(x[:2])


@program
def numeric_methods(function):
  @function
  def root(x, tolerance=1e-6):
    g = x / 2.
    while tf.abs(g * g - x) > tolerance * x:
      g = 0.5 * (g + x / g)
    return g

  @function
  def eigenvector(a, steps):
    v = tf.ones([tf.shape(a)[0], 1])
    for _ in tf.range(steps):
      v = a @ v
      v = v / tf.norm(v)
    return tf.squeeze(tf.transpose(v) @ a @ v), v

  @function
  def primes(n):
    out, k = tf.TensorArray(tf.int32, 0, dynamic_size=True), 0
    for i in tf.range(2, n):
      prime = True
      for j in tf.range(2, i):
        if j * j > i:
          break
        if i % j == 0:
          prime = False
          break
      if prime:
        out = out.write(k, i)
        k += 1
    return out.stack()

  return ([root(tf.constant(v)) for v in (2., 9., 100.)],
          eigenvector(tf.constant([[2., 1.], [1., 3.]]), tf.constant(20)),
          primes(tf.constant(30)))


@program
def game_of_life(function):
  @function
  def run(b, n):
    for _ in tf.range(n):
      p = tf.pad(b, [[1, 1], [1, 1]])
      around = tf.add_n([tf.slice(p, [i, j], tf.shape(b)) for i in range(3) for j in range(3)
                         if (i, j) != (1, 1)])
      b = tf.cast((around == 3) | ((b == 1) & (around == 2)), tf.int32)
    return b

  g = np.zeros((6, 6), np.int32)
  g[1, 2] = g[2, 3] = g[3, 1] = g[3, 2] = g[3, 3] = 1
  return run(tf.constant(g), 4), run(tf.constant(g), tf.constant(3))


@program
def best_path(function):
  @function
  def viterbi(seen, first, trans, emit):
    score = first + tf.gather(emit, seen[0], axis=1)
    back = tf.TensorArray(tf.int32, size=tf.size(seen) - 1)
    for t in tf.range(1, tf.size(seen)):
      s = score[:, None] + trans
      back = back.write(t - 1, tf.argmax(s, 0, output_type=tf.int32))
      score = tf.reduce_max(s, 0) + tf.gather(emit, seen[t], axis=1)
    back, last = back.stack(), tf.argmax(score, output_type=tf.int32)
    path = tf.TensorArray(tf.int32, size=tf.size(seen)).write(tf.size(seen) - 1, last)
    for t in tf.range(tf.size(seen) - 2, -1, -1):
      last = back[t, last]
      path = path.write(t, last)
    return path.stack(), tf.reduce_max(score)

  log = lambda a: np.log(np.array(a, np.float32))
  return viterbi(tf.constant([0, 1, 2, 0]), log([.6, .4]), log([[.7, .3], [.4, .6]]),
                 log([[.5, .4, .1], [.1, .3, .6]]))


@program
def dreaming(function):
  model = keras.Sequential([layers.Input((8, 8, 3)), layers.Conv2D(4, 3, activation="relu")])

  @function(input_signature=(tf.TensorSpec([None, None, 3], tf.float32),
                             tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.float32)))
  def dream(image, steps, size):
    loss = tf.constant(0.)
    for _ in tf.range(steps):
      with tf.GradientTape() as tape:
        tape.watch(image)
        loss = tf.reduce_mean(model(image[None]))
      g = tape.gradient(loss, image)
      image = tf.clip_by_value(image + size * g / (tf.math.reduce_std(g) + 1e-8), -1, 1)
    return loss, image

  return dream(np.random.default_rng(0).normal(size=(8, 8, 3)).astype(np.float32), 3, 0.1)


@program
def transformer(function):
  class Block(layers.Layer):

    def __init__(self):
      super().__init__()
      self.words, self.places = layers.Embedding(10, 8), layers.Embedding(6, 8)
      self.heads, self.drop = layers.MultiHeadAttention(2, 4), layers.Dropout(0.1, seed=1)
      self.forward = keras.Sequential([layers.Dense(16, "relu"), layers.Dense(8)])
      self.norms = [layers.LayerNormalization(epsilon=1e-6) for _ in range(2)]

    def call(self, ids, training=False):
      x = self.words(ids) + self.places(tf.range(tf.shape(ids)[-1]))
      h = self.heads(x, x, use_causal_mask=True)
      x = self.norms[0](x + self.drop(h, training=training))
      return self.norms[1](x + self.forward(x))

  ids = layers.Input((None,), dtype="int32")
  model = keras.Model(ids, layers.Dense(10)(Block()(ids)))
  optimizer = keras.optimizers.Adam(0.01, beta_2=.98, clipnorm=1.)

  @function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
  def step(x):
    with tf.GradientTape() as tape:
      logits = model(x[:, :-1], training=True)
      mask = tf.cast(x[:, 1:] != 0, tf.float32)
      each = tf.nn.sparse_softmax_cross_entropy_with_logits(x[:, 1:], logits)
      loss = tf.reduce_sum(each * mask) / tf.reduce_sum(mask)
    variables = model.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return loss

  @function
  def generate(x, n):
    for _ in tf.range(n):
      tf.autograph.experimental.set_loop_options(
          shape_invariants=[(x, tf.TensorShape([1, None]))])
      last = tf.argmax(model(x, training=False)[:, -1], -1, output_type=tf.int32)
      x = tf.concat([x, last[:, None]], 1)
    return x

  x = np.array([[1, 2, 3, 4, 0], [5, 6, 7, 0, 0]], np.int32)
  return ([step(x) for _ in range(2)], step(x[:, :4]), step.experimental_get_tracing_count(),
          generate(tf.constant([[1]]), tf.constant(4)))


@program
def text_one_step_at_a_time(function):
  words, cell, out = layers.Embedding(12, 4), layers.GRU(5, return_state=True), layers.Dense(12)

  @function
  def one_step(ids, state=None):
    h, state = cell(words(ids), initial_state=state)
    return tf.argmax(out(h), -1), state

  words.build(())
  cell.build((None, None, 4))
  out.build((None, 5))
  ids, state, said = tf.constant([[1]], tf.int64), None, []
  for _ in range(4):
    ids, state = one_step(ids, state)
    said.append(ids)
    ids = ids[:, None]
  return said, state, one_step.experimental_get_tracing_count()


@program
def an_optimizer_by_hand(function):
  random = np.random.default_rng(3)
  x = random.normal(size=(40, 3)).astype(np.float32)
  y = (x[:, 0] + x[:, 1] > 0).astype(np.float32)
  w, b = tf.Variable(tf.fill([3, 1], .1)), tf.Variable(0.)

  class Adam:

    def __init__(self):
      self.m, self.v, self.built = [], [], False
      self.t = tf.Variable(0.)

    def apply(self, gradients, variables):
      if not self.built:
        self.m = [tf.Variable(tf.zeros(v.shape)) for v in variables]
        self.v = [tf.Variable(tf.zeros(v.shape)) for v in variables]
        self.built = True
      self.t.assign_add(1.)
      for m, v, g, variable in zip(self.m, self.v, gradients, variables):
        m.assign(.9 * m + .1 * g)
        v.assign(.999 * v + .001 * tf.square(g))
        variable.assign_sub(.1 * (m / (1 - .9 ** self.t)) / (
            tf.sqrt(v / (1 - .999 ** self.t)) + 1e-7))

  optimizer = Adam()

  @function
  def step(x, y):
    with tf.GradientTape() as tape:
      logits = tf.squeeze(x @ w + b, 1)
      loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, logits))
    optimizer.apply(tape.gradient(loss, [w, b]), [w, b])
    return loss

  return [step(x, y) for _ in range(4)], w, b, optimizer.m


@program
def slices_and_indices(function):
  @function
  def f(x, i):
    return (x[1:3, ::2], x[..., -1], x[:, tf.newaxis], x[i], x[i:], x[:i, 1], x[::-1],
            tf.gather_nd(x, [[0, 1], [1, 2]]), tf.tensor_scatter_nd_update(x, [[0, 0]], [9.]),
            tf.scatter_nd([[1], [3]], [1., 2.], [5]), tf.boolean_mask(x, x > 3.),
            tf.where(x > 5.), tf.einsum("ij,kj->ik", x, x), tf.linalg.band_part(x, 0, -1),
            tf.sort(x, direction="DESCENDING"), tf.argsort(x[0]), tf.repeat(x[0], 2),
            tf.meshgrid(x[0], x[:, 0]), tf.sequence_mask([1, 3], 4),
            tf.cumsum(x, 1, exclusive=True, reverse=True), tf.split(x, [1, 3], 1), tf.unstack(x),
            tf.eye(3), tf.linspace(0., 1., 5), tf.one_hot([0, 2], 3), tf.tensordot(x, x, 1),
            tf.math.bincount([1, 1, 3]), tf.math.l2_normalize(x, 1), tf.math.top_k(x, 2),
            tf.image.resize(x[None, :, :, None], [2, 2]))

  return f(tf.reshape(tf.range(16.), [4, 4]), tf.constant(2))


@program
def tables_of_the_guide(function):
  outside, seen = tf.Variable(0), []

  @function
  def add(a, b):
    print("Tracing with", a, b)
    return a + b

  @function
  def effects(x):
    print("Traced with", x)
    tf.print("Executed with", x)
    outside.assign_add(x)
    seen.append(x)

  for a, b in ((1, 2), (tf.constant(1), 2), (tf.constant([1]), tf.constant([2])), (1, 2),
               ("a", "b"), (tf.constant("a"), tf.constant("b"))):
    print(add(a, b))
  for x in (1, 1, 2, tf.constant(3)):
    effects(x)
  return outside, len(seen), add.pretty_printed_concrete_signatures()


@program
def sampled_losses(function):
  tf.random.set_seed(5)
  weights = tf.Variable(tf.reshape(tf.range(80.) / 40, [20, 4]))
  biases = tf.Variable(tf.range(20.) / 20)

  @function
  def step(x, labels):
    with tf.GradientTape() as tape:
      softmax = tf.nn.sampled_softmax_loss(weights, biases, labels, x, 6, 20, seed=3)
      nce = tf.nn.nce_loss(weights, biases, labels, x, 5, 20, remove_accidental_hits=True,
                           sampled_values=tf.random.learned_unigram_candidate_sampler(
                               labels, 1, 5, True, 20, seed=4))
      loss = tf.reduce_mean(softmax) + tf.reduce_mean(nce)
    gradients = tape.gradient(loss, [weights, biases])
    return loss, [tf.convert_to_tensor(g) for g in gradients]

  x = tf.reshape(tf.range(12.) / 12, [3, 4])
  return [step(x, tf.constant([[1], [7], [19]], tf.int64)) for _ in range(3)]


@program
def parsed_examples(function):
  def example(i):
    feature = {"id": tf.train.Feature(int64_list=tf.train.Int64List(value=[i])),
               "words": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"w"] * i))}
    if i != 1:
      feature["size"] = tf.train.Feature(float_list=tf.train.FloatList(value=[i / 2, 2.0]))
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()

  @function
  def batch(serialized):
    parsed = tf.io.parse_example(serialized, {
        "id": tf.io.FixedLenFeature([], tf.int64),
        "size": tf.io.FixedLenFeature([2], tf.float32, default_value=[-1.0, -2.0]),
        "steps": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
        "words": tf.io.VarLenFeature(tf.string)})
    ragged = tf.io.parse_example(serialized, {
        "words": tf.io.RaggedFeature(tf.string), "id": tf.io.RaggedFeature(tf.int64)})
    return parsed["id"], parsed["size"], parsed["steps"], parsed["words"], ragged["words"]

  @function
  def single(serialized):
    parsed = tf.io.parse_single_example(serialized, {
        "id": tf.io.FixedLenFeature([1], tf.int64), "words": tf.io.VarLenFeature(tf.string)})
    return parsed["id"], tf.sparse.to_dense(parsed["words"])

  return batch(tf.constant([example(i) for i in range(3)])), single(tf.constant(example(2)))


@program
def parsed_sequences(function):
  def numbers(*values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

  def sequence(i):
    context = tf.train.Features(feature={"id": numbers(i), "tags": numbers(*range(i))})
    steps = tf.train.FeatureList(feature=[numbers(*range(j)) for j in range(i + 1)])
    pairs = tf.train.FeatureList(feature=[numbers(j, i) for j in range(i)])
    return tf.train.SequenceExample(context=context, feature_lists=tf.train.FeatureLists(
        feature_list={"steps": steps, "pairs": pairs})).SerializeToString()

  @function
  def batch(serialized):
    context, lists, lengths = tf.io.parse_sequence_example(
        serialized, {"id": tf.io.FixedLenFeature([], tf.int64),
                     "tags": tf.io.VarLenFeature(tf.int64)},
        {"steps": tf.io.RaggedFeature(tf.int64), "pairs": tf.io.FixedLenSequenceFeature([2], tf.int64),
         "none": tf.io.VarLenFeature(tf.string)})
    return context["id"], context["tags"], lists["steps"], lists["pairs"], lists["none"], lengths

  return batch(tf.constant([sequence(i) for i in range(4)]))


@program
def drawn_gammas_and_counts(function):
  @function
  def f(rates):
    return (tf.random.stateless_gamma([50, 3], seed=[1, 2], alpha=rates),
            tf.random.stateless_poisson([50, 3], seed=[1, 2], lam=rates * 4, dtype=tf.int32),
            tf.random.gamma([20], rates, beta=2.0, seed=5), tf.random.poisson([20], rates, seed=6))

  return [f(tf.constant([0.5, 1.0, 7.0])) for _ in range(2)]


@program
def drawn_successes(function):
  generator = tf.random.Generator.from_seed(3)

  @function
  def f(counts, probs):
    return (tf.random.stateless_binomial([20, 2, 3], seed=[1, 2], counts=counts, probs=probs),
            generator.binomial([5, 2, 3], counts, probs), generator.binomial([7], 100., 0.7),
            generator.uniform([2]))

  counts, probs = tf.constant([3.0, 30.0, 300.0]), tf.constant([[0.2], [0.8]])
  return [f(counts, probs) for _ in range(2)], generator.state
