"""A model whose versions are replaced while clients call it."""
import threading
import time

import formwork


def call_while_replaced(address, name, save, versions, ask):
  """Loads each of the versions in turn, while three threads ask; each sees none but whole ones.

  save(version): writes its folder. ask(): a function of its own for each thread, which calls the
  model, whose version 1 is there at first, and returns the version that answered; what it raises
  fails the test.
  """
  stop, seen, failed = threading.Event(), set(), []

  def keep_asking(ask_once):
    while not stop.is_set():
      try:
        seen.add(ask_once())
      except Exception as error:  # pylint: disable=broad-except
        failed.append(error)
  with formwork.connect(address) as server:
    save(1)
    server.load_saved_model(name, name)
    threads = [threading.Thread(target=keep_asking, args=[ask()]) for _ in range(3)]
    for thread in threads:
      thread.start()
    for version in range(2, versions + 1):
      save(version)
      server.load_saved_model(name, name, replace=True)
      deadline = time.monotonic() + 20
      while version not in seen and time.monotonic() < deadline:
        time.sleep(0.01)
    stop.set()
    for thread in threads:
      thread.join()
  assert not failed, failed[:3]
  assert seen == set(range(1, versions + 1))
