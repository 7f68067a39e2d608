"""flood.py ADDRESS NAMESPACE FUNCTION DTYPE COUNT: COUNT calls of a function of a scalar zero.

They are sent at once, each with a deadline of a minute. In a process of its own, so that what the
attacker's Python costs does not count as the server's. Says "sent", and then how many have been
refused for each line that it reads, until its input ends.
"""
import asyncio
import sys

import formwork
import formwork.aio
import numpy as np


async def _call(server, function, argument, refused):
  try:
    await server.call(function, [argument], timeout=60)
  except formwork.Error:
    refused.append(1)


async def _flood(address, namespace, function, dtype, count):
  refused = []
  async with await formwork.aio.connect(address, namespace) as server:
    argument = np.zeros((), dtype)
    calls = [asyncio.ensure_future(_call(server, function, argument, refused))
             for _ in range(int(count))]
    await asyncio.sleep(1)
    print("sent", flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
      print(len(refused), flush=True)
    for call in calls:
      call.cancel()


if __name__ == "__main__":
  asyncio.run(_flood(*sys.argv[1:]))
