"""run.py [NAME...]: runs the attacks whose name (theme.function) has one of the texts; without any,
all. Prints each with its figure, and how many held. Exit code 1 where one did not."""
import importlib
import pathlib
import sys
import time
import traceback

import harness


def load():
  for path in sorted(pathlib.Path(__file__).parent.glob("*.py")):
    if path.stem not in ("flood", "harness", "run"):
      importlib.import_module(path.stem)


def run(declared):
  """(held, figure or reason)."""
  try:
    with harness.Attack() as attack:
      figure = declared.run(attack)
    return True, str(figure)
  except harness.Failed as failure:
    return False, str(failure)
  except Exception:  # Any other failure is one of the attack's.
    return False, traceback.format_exc(limit=-3)


def main(texts):
  load()
  chosen = [a for a in harness.ATTACKS if not texts or any(t in a.name for t in texts)]
  if not chosen:
    sys.exit("no attack is named so; there are: " + ", ".join(a.name for a in harness.ATTACKS))
  lost = []
  for declared in chosen:
    started = time.monotonic()
    held, said = run(declared)
    if not held:
      lost.append(declared.name)
    print("%-6s %-44s %6.1f s  %s: %s" % ("held" if held else "LOST", declared.name,
                                          time.monotonic() - started, declared.text, said),
          flush=True)
  print("%d of %d attacks held%s" % (len(chosen) - len(lost), len(chosen),
                                     "".join("\n  lost: " + name for name in lost)))
  sys.exit(1 if lost else 0)


main(sys.argv[1:])
