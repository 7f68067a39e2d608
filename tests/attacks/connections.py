"""Peers that connect and say nothing, little, or half of it."""
import contextlib
import resource
import threading
import time

import formwork
import numpy as np

import harness
import http2
import server_graphs
import server_process
from http2 import connect, connections

MEGABYTE = 1 << 20

# A Call of a megabyte of which four bytes come.
UNFINISHED = http2.frame(http2.HEADERS, http2.END_HEADERS, http2.request_headers("Call"), 1) + \
    http2.frame(http2.DATA, 0, http2.message(b"abcd", MEGABYTE), 1)


def raise_own_limit(descriptors):
  _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
  if hard < descriptors:
    descriptors = hard
  resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, hard))
  return descriptors


def seconds_of(ask):
  started = time.monotonic()
  ask()
  return time.monotonic() - started


def health_of_a_new_connection(server):
  with server.channel() as channel:
    return server_process.health(channel)


def eventually(condition, seconds=5):
  deadline = time.monotonic() + seconds
  while not condition() and time.monotonic() < deadline:
    time.sleep(0.05)
  return condition()


def open_connections(server):
  text = server.get("/metrics")[1]
  return next(float(line.split()[1]) for line in text.splitlines()
              if line.startswith("formwork_connections "))


def ready_within(server, seconds):
  deadline = time.monotonic() + seconds
  while server.get("/readyz")[0] != 200 and time.monotonic() < deadline:
    time.sleep(0.1)
  return server.get("/readyz")[0] == 200


@harness.attack("1,100 idle connections, 1,024 file descriptors by default")
def soft_limit(attack):
  _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
  server = attack.server(limits={resource.RLIMIT_NOFILE: (1024, hard)})
  with connections(server.grpc, 1100, http2.GREETING):
    seconds = seconds_of(lambda: health_of_a_new_connection(server))
    attack.check(seconds < 1, "a health check took %.1f s beside them" % seconds)
    attack.check(server.get("/readyz")[0] == 200, "/readyz says that it does not serve")
  return "health check %.0f ms" % (1000 * seconds)


@harness.attack("1,100 silent connections, 1,024 file descriptors at most")
def hard_limit(attack):
  server = attack.server(limits={resource.RLIMIT_NOFILE: (1024, 1024)})
  with connections(server.grpc, 1100):
    time.sleep(1.5)  # So long a connection has to say its first words.
    seconds = seconds_of(lambda: health_of_a_new_connection(server))
    attack.check(seconds < 2, "a health check took %.1f s beside them" % seconds)
    attack.check(ready_within(server, 5), "/readyz says that it does not serve")
  return "health check %.0f ms" % (1000 * seconds)


@harness.attack("1,100 idle HTTP/2 connections, 1,024 file descriptors at most")
def hard_limit_greeted(attack):
  server = attack.server(limits={resource.RLIMIT_NOFILE: (1024, 1024)})
  client = attack.client(server)
  identity = server_graphs.register(client, "identity")
  with connections(server.grpc, 1100, http2.GREETING):
    seconds = seconds_of(lambda: identity(np.float32([1])))
    attack.check(seconds < 1, "a call of a client that was there took %.1f s" % seconds)
    # They are cut off for new ones when they have been silent for longer than a busy one can be.
    started = time.monotonic()
    attack.check(ready_within(server, 40), "deaf for new clients for 40 s")
    health_of_a_new_connection(server)
    deaf = time.monotonic() - started
  return "call %.0f ms, full for %.0f s" % (1000 * seconds, deaf)


@harness.attack("20,000 connections, 4,096 file descriptors at most; then they go")
def flood(attack):
  count = min(20000, raise_own_limit(21000) - 500)
  server = attack.server(limits={resource.RLIMIT_NOFILE: (4096, 4096)})
  with connections(server.grpc, count):
    grown = server.resident_bytes() >> 20
  started = time.monotonic()
  attack.check(ready_within(server, 10), "/readyz says that it does not serve")
  health_of_a_new_connection(server)
  seconds = time.monotonic() - started
  attack.check(seconds < 5, "it took %.1f s to serve again" % seconds)
  attack.check(grown < 600, "%d MB resident" % grown)
  return "%d connections: %d MB, serves after %.1f s" % (count, grown, seconds)


@harness.attack("/readyz while nobody accepts gRPC's connections")
def readyz_asks(attack):
  server = attack.server("--max-connections", "4")
  health_of_a_new_connection(server)
  # Its place is free once the server has seen its end: else one of the four finds none.
  attack.check(eventually(lambda: open_connections(server) == 0), "its connection stays open")
  with connections(server.grpc, 4, http2.GREETING):
    attack.check(eventually(lambda: open_connections(server) == 4), "the places are not taken")
    time.sleep(1)  # An answer of /readyz stands for half a second.
    code = server.get("/readyz")[0]
    attack.check(code == 503, "/readyz says %d though no client finds a place" % code)
  attack.check(ready_within(server, 5), "/readyz does not say 200 again")
  return "503, then 200"


def worst_healthz(server, times=20):
  worst = 0
  for _ in range(times):
    worst = max(worst, seconds_of(lambda: server.get("/healthz")))
  return worst


@harness.attack("/healthz beside 1,000 HTTP connections: silent, half a request, a slow reader")
def http_idle(attack):
  server = attack.server()
  worst = 0
  for first in (b"", b"GET /healthz HTT", b"GET /metrics HTTP/1.1\r\nHost: x\r\n",
                b"GET /metrics HTTP/1.1\r\n\r\n", b"POST /x HTTP/1.1\r\nContent-Length: 9\r\n\r\n"):
    with connections(server.http, 1000, first):
      worst = max(worst, worst_healthz(server))
  attack.check(worst < 0.5, "/healthz took %.0f ms" % (1000 * worst))
  return "worst /healthz %.0f ms" % (1000 * worst)


@harness.attack("HTTP requests that come a byte at a time")
def http_slowly(attack):
  server = attack.server()
  with connections(server.http, 100) as peers:
    stop = threading.Event()

    def trickle():
      while not stop.wait(0.05):
        for peer in peers:
          with contextlib.suppress(OSError):
            peer.send(b"G")

    sender = threading.Thread(target=trickle)
    sender.start()
    try:
      worst = worst_healthz(server, 40)
    finally:
      stop.set()
      sender.join()
  attack.check(worst < 0.5, "/healthz took %.0f ms" % (1000 * worst))
  return "worst /healthz %.0f ms" % (1000 * worst)


@harness.attack("half-open gRPC peers: no greeting, half a greeting, a request without end")
def grpc_half_open(attack):
  server = attack.server()
  client = attack.client(server)
  identity = server_graphs.register(client, "identity")
  worst = 0
  with connections(server.grpc, 200), connections(server.grpc, 200, http2.PREFACE[:10]), \
      connections(server.grpc, 200, http2.GREETING + UNFINISHED):
    for _ in range(20):
      worst = max(worst, seconds_of(lambda: identity(np.float32([1]))))
      worst = max(worst, seconds_of(lambda: health_of_a_new_connection(server)))
  attack.check(worst < 1, "a call took %.1f s beside them" % worst)
  return "worst call %.0f ms" % (1000 * worst)


@harness.attack("silent gRPC connections are closed in the end")
def silent_are_closed(attack):
  server = attack.server()
  with connect(server.grpc) as silent:
    silent.settimeout(25)
    started = time.monotonic()
    try:
      while silent.recv(4096):
        pass
    except TimeoutError:
      attack.check(False, "it was open after 25 s")
    except OSError:
      pass
    seconds = time.monotonic() - started
  return "after %.0f s" % seconds
