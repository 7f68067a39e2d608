"""How a server ends."""
import signal
import threading
import time

import formwork
import numpy as np

import harness
import server_graphs
import server_process


@harness.attack("calls and a registration go on through the lame-duck pause, then are refused")
def lame_duck(attack):
  server = attack.server("--lame-duck", "2", "--drain-timeout", "5", expect_end=True)
  client = attack.client(server)
  identity = server_graphs.register(client, "identity")
  with server.channel() as channel:
    watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=30)
    attack.check(next(watch) == b"\x08\x01", "does not serve at first")
    server.terminate()
    started = time.monotonic()
    attack.check(next(watch) == b"\x08\x02", "health does not say that it ends")
    seconds = time.monotonic() - started
    attack.check(server.get("/readyz")[0] == 503, "/readyz says that it serves")
    while time.monotonic() < started + 1.5:
      identity(np.float32([1]))
  code = server.exit_code()
  attack.check(code == 0, "exit code %d" % code)
  return "health after %.0f ms, ended after %.1f s" % (1000 * seconds, time.monotonic() - started)


@harness.attack("an endless loop at the end of the drain: ABORTED or UNAVAILABLE, exit code not 0")
def cut_off(attack):
  server = attack.server("--drain-timeout", "1", expect_end=True)
  client = attack.client(server, timeout=60)
  spin = server_graphs.register(client, "spin")
  codes = []

  def call():
    try:
      spin(np.int32(2**31 - 1), timeout=60)
    except formwork.Error as error:
      codes.append(error.code)

  caller = threading.Thread(target=call)
  caller.start()
  time.sleep(0.5)
  started = time.monotonic()
  server.terminate()
  code = server.exit_code()
  seconds = time.monotonic() - started
  caller.join()
  attack.check(code != 0, "exit code 0 though a call was cut off")
  attack.check(seconds < 5, "it took %.1f s" % seconds)
  attack.check(codes and codes[0] in ("ABORTED", "UNAVAILABLE"), "the call ended as %s" % codes)
  return "%s, exit code %d, after %.1f s" % (codes[0], code, seconds)


@harness.attack("a second signal ends it at once")
def second_signal(attack):
  server = attack.server("--lame-duck", "60", expect_end=True)
  server.terminate()
  time.sleep(0.3)
  started = time.monotonic()
  server.terminate(signal.SIGINT)
  code = server.exit_code(10)
  attack.check(code != 0, "exit code 0")
  return "after %.0f ms" % (1000 * (time.monotonic() - started))
