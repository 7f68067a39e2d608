"""Measures the engine's program beside a peer: rounds of both by turns, medians of them."""
import statistics
import subprocess
import sys
import time

ROUNDS = 7


def alternate(command, peer, calls, clock):
  """Runs rounds of the engine's program and of `peer`, so many calls each, by turns.

  Returns the medians (ours, theirs), in seconds per call by that clock: time.process_time or
  time.perf_counter.
  """
  column = {time.process_time: 0, time.perf_counter: 1}[clock]
  process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
  for _ in range(2):
    peer()
  ours, theirs = [], []
  for _ in range(ROUNDS):
    start = clock()
    for _ in range(calls):
      peer()
    theirs.append((clock() - start) / calls)
    process.stdin.write("round\n")
    process.stdin.flush()
    line = process.stdout.readline()
    if not line:
      sys.exit("the engine has failed: " + " ".join(command))
    ours.append(float(line.split()[column]) * 1e-6)
  process.stdin.close()
  process.wait()
  return statistics.median(ours), statistics.median(theirs)
