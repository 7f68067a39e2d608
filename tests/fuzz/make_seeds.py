"""Writes the fuzzer's first inputs: small graphs of many kinds, traced with TensorFlow, and a SavedModel."""
import contextlib
import os
import sys
import tempfile

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2


def older():
  """Loops, branches and a tensor array as TensorFlow 1 has them."""
  v1 = tf.compat.v1
  v1.disable_control_flow_v2()
  with tf.Graph().as_default() as graph:
    x = v1.placeholder(tf.float32, [3], name="x")
    v = v1.get_variable("v", [3], use_resource=False)
    array = tf.TensorArray(tf.float32, 3).unstack(x)
    def body(i, y):
      return i + 1, tf.cond(y > 1.0, lambda: y - 1.0, lambda: y + array.read(i))
    _, y = tf.while_loop(lambda i, y: i < 3, body, [0, 0.0])
    tf.cond(y > 2.0, lambda: v.assign(x), lambda: v.assign_add(x))
  v1.enable_control_flow_v2()
  # The fuzzer fetches the first ones, which are to be in no loop or branch.
  nodes = sorted(graph.as_graph_def().node, key=lambda node: node.op not in ("Placeholder", "Exit"))
  return v1.GraphDef(node=nodes)


def saved_model():
  """With variables, a table that is made of a file, and a sparse input."""
  v1 = tf.compat.v1
  info = v1.saved_model.utils.build_tensor_info
  with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), \
      tf.Graph().as_default(), v1.Session() as session:
    words = "words.txt"  # The graph has it as it is given.
    with open(words, "w") as f:
      f.write("a\nb\n")
    x = v1.placeholder(tf.float32, [None, 3], name="x")
    sparse = v1.sparse_placeholder(tf.float32, [None, 3], name="s")
    w = v1.get_variable("w", [3, 2], use_resource=True)
    reference = v1.get_variable("r", [2], use_resource=False)
    index = tf.lookup.TextFileIndex
    table = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(
        words, tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER), -1)
    y = x @ w + reference + v1.sparse_tensor_dense_matmul(sparse, w)
    session.run([v1.global_variables_initializer(), v1.tables_initializer()])
    builder = v1.saved_model.Builder("model")
    signature = v1.saved_model.signature_def_utils.build_signature_def(
        {"x": info(x), "s": info(sparse)},
        {"y": info(y), "id": info(table.lookup(tf.constant(["a"])))}, "predict")
    builder.add_meta_graph_and_variables(
        session, ["serve"], {"serving_default": signature}, main_op=v1.tables_initializer(),
        assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS))
    with open(builder.save(), "rb") as f:
      model = saved_model_pb2.SavedModel.FromString(f.read())
  model.meta_graphs[0].meta_info_def.ClearField("stripped_op_list")
  return model


def graphs():
  x = tf.TensorSpec([None, 3], tf.float32)

  @tf.function
  def arithmetic(x):
    return tf.reduce_sum(tf.nn.relu(x * 2.0 + 1.0), axis=1)

  @tf.function
  def loop(x):
    i = tf.constant(0)
    while i < 3:
      x = x + tf.cast(i, tf.float32)
      i += 1
    return x

  @tf.function
  def branch(x):
    if tf.reduce_sum(x) > 0:
      return x[:, :2]
    return tf.concat([x, x], axis=1)[:, 1:3]

  @tf.function
  def inner(x):
    return tf.reshape(tf.transpose(x), [-1])

  @tf.function
  def calls(x):
    return inner(x) + inner(x)

  @tf.function
  def arrays(x):
    array = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
    for k in tf.range(3):
      array = array.write(k, x[0] * tf.cast(k, tf.float32))
    return array.stack()

  yield "older", older()
  yield "saved_model", saved_model()
  for f in (arithmetic, loop, branch, calls, arrays):
    yield f.python_function.__name__, f.get_concrete_function(x).graph.as_graph_def()


if __name__ == "__main__":
  for name, graph in graphs():
    with open(os.path.join(sys.argv[1], name + ".pb"), "wb") as f:
      f.write(graph.SerializeToString(deterministic=True))
