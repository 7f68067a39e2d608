"""A call's timeline as a file that Perfetto (ui.perfetto.dev) and chrome://tracing open."""
import json
import warnings

from formwork.v1 import timelines_pb2

_CATEGORIES = {number: name[len("KIND_"):].lower()
               for name, number in timelines_pb2.Timeline.Kind.items()}
# What a span's detail is, by its category.
_DETAILS = {"call": "function", "wait": "for", "suspended": "for", "copy": "to"}
_PROCESS = 1


def events(timeline, name):
  """The events of a formwork.v1.Timeline: a track is a thread of the process `name`."""
  texts = timeline.texts
  made = [_named("process_name", 0, name)]
  made += [_named("thread_name", track, text) for track, text in enumerate(timeline.tracks)]
  for span in timeline.spans:
    category = _CATEGORIES.get(span.kind, "other")
    args = {"op": texts[span.op], _DETAILS.get(category, "outputs"): texts[span.detail],
            "bytes": span.bytes}
    made.append({"name": texts[span.name] or texts[span.op], "cat": category, "ph": "X",
                 "ts": span.begin_ns / 1000, "dur": span.duration_ns / 1000, "pid": _PROCESS,
                 "tid": span.track, "args": {key: value for key, value in args.items() if value}})
  if timeline.left_out:
    made.append({"name": "%d more were left out" % timeline.left_out, "ph": "i", "s": "p",
                 "ts": max(e["ts"] + e["dur"] for e in made if e["ph"] == "X"), "pid": _PROCESS,
                 "tid": 0})
  return made


def write(timeline, name, path):
  """Writes a formwork.v1.Timeline in Chrome's trace format; warns where it is None.

  Errors: OSError.
  """
  if timeline is None:
    warnings.warn("the server has answered without a timeline: %s was not written" % path)
    return
  with open(path, "w", encoding="utf-8") as f:
    json.dump({"displayTimeUnit": "ns",
               "otherData": {"start_unix_ns": timeline.start_ns, "left_out": timeline.left_out},
               "traceEvents": events(timeline, name)}, f)


def _named(what, track, name):
  return {"name": what, "ph": "M", "pid": _PROCESS, "tid": track, "args": {"name": name}}
