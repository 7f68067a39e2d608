"""Joins the parts of a benchmark run into results.json and prints the table."""
import json
import pathlib
import sys


def main(folder):
  folder = pathlib.Path(folder)
  results = [json.loads(line) for line in (folder / "grpc.jsonl").read_text().splitlines()]
  for part in ("python.json", "engine.json"):
    results += json.loads((folder / part).read_text())
  (folder / "results.json").write_text(json.dumps(results, indent=1))
  print("%-40s %12s %12s %8s  %-8s %s" % ("name", "ours", "peer", "ratio", "unit", "peer's name"))
  for r in results:
    print("%-40s %12.1f %12.1f %8.3f  %-8s %s" %
          (r["name"], r["ours"], r["peer"], r["ratio"], r["unit"], r["peer_name"]))


if __name__ == "__main__":
  main(sys.argv[1])
