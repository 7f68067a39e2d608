"""Datasets and iterators of the client: server.dataset, server.iterator."""
import numpy as np
import pytest

import formwork
from formwork.tf import graph_pb2

SPEC = [formwork.TensorSpec("", "float32", [None]), formwork.TensorSpec("", "string", [])]
ELEMENTS = [[[1., 2.], b"a"], [[3., 4.], b"b"]]


def _listed(element):
  return [a.tolist() for a in element]


def test_an_iterator_gives_the_elements_and_then_says_so(live):
  it = live.iterator("it", live.dataset(elements=ELEMENTS, element_spec=SPEC))
  assert it.id > 0 and it.kind == "iterator"
  assert [_listed(it.next()) for _ in ELEMENTS] == [[[1., 2.], b"a"], [[3., 4.], b"b"]]
  with pytest.raises(formwork.Error, match="End of sequence") as caught:
    it.next()
  assert caught.value.code == "OUT_OF_RANGE"
  it.delete()
  with pytest.raises(formwork.Error, match="iterator 'it' was deleted"):
    it.next()


def test_elements_may_differ_in_shape(live):
  elements = [[np.arange(n), b"x" * n] for n in (3, 0, 1, 2, 5)]
  it = live.iterator("ragged", live.dataset(elements=elements, element_spec=SPEC))
  assert [_listed(it.next()) for _ in elements] == [
      [list(range(n)), b"x" * n] for n in (3, 0, 1, 2, 5)]
  it.delete()


def test_an_iterator_begins_anew(live):
  d = live.dataset(elements=ELEMENTS, element_spec=SPEC)
  it = live.iterator("again", d)
  it.next()
  same = live.iterator("again", d)
  assert same.id == it.id and _listed(it.next()) == [[1., 2.], b"a"]
  assert _listed(same.next()) == [[3., 4.], b"b"]
  it.delete()


def test_one_that_is_there_goes_on_where_it_is(live):
  it = live.iterator("there", live.dataset(elements=ELEMENTS, element_spec=SPEC))
  it.next()
  same = live.iterator("there", element_spec=SPEC)
  assert same.id == it.id and _listed(same.next()) == [[3., 4.], b"b"]
  it.delete()
  with pytest.raises(formwork.Error, match="there") as caught:
    live.iterator("there", element_spec=SPEC)
  assert caught.value.code == "NOT_FOUND"
  v = live.variable("no iterator", np.zeros([1], np.float32))
  with pytest.raises(formwork.Error, match="is no iterator"):
    live.iterator("no iterator", element_spec=SPEC)
  v.delete()


def test_a_dataset_without_elements(live):
  it = live.iterator("empty", live.dataset(elements=[], element_spec=SPEC))
  with pytest.raises(formwork.Error, match="End of sequence"):
    it.next()
  it.delete()


def _cardinality():
  graph = graph_pb2.GraphDef()
  d = graph.node.add(name="d", op="Placeholder")
  d.attr["dtype"].type = 21
  graph.node.add(name="size", op="DatasetCardinality", input=["d"])
  return graph.SerializeToString()


def test_datasets_are_captured_and_passed(live):
  d = live.dataset(elements=ELEMENTS, element_spec=SPEC)
  d = live.dataset(elements=ELEMENTS * 3, element_spec=SPEC)
  passed = live.register("passed", graph_def=_cardinality(), outputs=["size:0"],
                         inputs=[formwork.TensorSpec("d:0", "variant", [])])
  assert passed(d) == [6]
  captured = live.register("captured", graph_def=_cardinality(), inputs=[], outputs=["size:0"],
                           captures={"d:0": d})
  assert captured() == [6]


def test_a_dataset_of_a_graph(live):
  graph = graph_pb2.GraphDef()
  for name, value in (("start", 0), ("stop", 3), ("step", 1)):
    node = graph.node.add(name=name, op="Const")
    node.attr["dtype"].type = node.attr["value"].tensor.dtype = 9
    node.attr["value"].tensor.tensor_shape.SetInParent()
    node.attr["value"].tensor.int64_val.append(value)
  node = graph.node.add(name="r", op="RangeDataset", input=["start", "stop", "step"])
  node.attr["output_types"].list.type.append(9)
  node.attr["output_shapes"].list.shape.add()
  d = live.dataset(graph_def=graph.SerializeToString(), output="r:0",
                   element_spec=[formwork.TensorSpec("", "int64", [])])
  it = live.iterator("range", d)
  assert [it.next() for _ in range(3)] == [[0], [1], [2]]
  it.delete()


def test_what_does_not_fit_the_spec_is_refused(live):
  with pytest.raises(formwork.Error, match="element 1 has 1 components"):
    live.dataset(elements=[ELEMENTS[0], [[1.]]], element_spec=SPEC)
  with pytest.raises(formwork.Error, match="expected shape"):
    live.dataset(elements=[[1., b"a"]], element_spec=SPEC)
  with pytest.raises(formwork.Error, match="element_spec"):
    live.dataset(elements=ELEMENTS)
  d = live.dataset(elements=ELEMENTS, element_spec=SPEC)
  it = live.iterator("typed", d)
  other = live.dataset(elements=[[1]], element_spec=[formwork.TensorSpec("", "int64", [])])
  with pytest.raises(formwork.Error, match="typed"):
    live.iterator("typed", other)
  it.delete()
