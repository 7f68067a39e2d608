"""The engine on a GPU beside PyTorch on the same one, wall time per call, rounds of both by turns.

  bench.py --engine BIN --functions FOLDER --out results.json

FOLDER: what functions.py has dumped. Inputs and results are in host memory, as a call has them.
PyTorch does the same work eagerly, and as a CUDA graph or compiled where it says so. Where there is
no PyTorch, or no GPU that it can use, nothing is measured.
"""
import argparse
import json
import os
import subprocess
import sys

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench")]
import time

import rounds


def mlp(torch):
  nn = torch.nn
  return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                       nn.Linear(512, 10)).cuda()


def adam_step(torch, graph):
  model, loss_of = mlp(torch), torch.nn.CrossEntropyLoss()
  optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=True, capturable=graph)
  x, y = torch.randn(64, 784), torch.randint(0, 10, (64,))
  on_gpu = x.cuda(), y.cuda()

  def step():
    optimizer.zero_grad(set_to_none=True)
    loss = loss_of(model(on_gpu[0]), on_gpu[1])
    loss.backward()
    optimizer.step()
    return loss

  if graph:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
      for _ in range(3):
        step()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
      loss = step()

  def call():
    on_gpu[0].copy_(x)
    on_gpu[1].copy_(y)
    if not graph:
      return step().item()
    captured.replay()
    return loss.item()

  return call


def peers(torch):
  """Yields name, the function of ours beside it, how many calls, and a maker of the peer."""
  synchronize = torch.cuda.synchronize

  def tiny():
    w, b, x = torch.randn(4, 4).cuda(), torch.zeros(4).cuda(), torch.ones(4, 4)
    return lambda: torch.relu(x.cuda() @ w + b).cpu()

  def inference():
    model, x = mlp(torch), torch.randn(32, 784)
    return torch.no_grad()(lambda: model(x.cuda()).cpu())

  def loop():
    v = torch.ones(1024).cuda()

    def run():
      y = v.clone()
      for _ in range(1000):
        y = y * 0.5 + y.sum() * 1e-4
      return y.sum().item()

    return run

  def product(dtype):
    a, b = (torch.randn(8192, 8192).cuda().to(dtype) for _ in range(2))
    c = torch.empty_like(a)

    def run():
      torch.matmul(a, b, out=c)
      synchronize()

    return run

  def chain(compiled):
    x = torch.rand(1 << 28).cuda()

    def elements(y):
      for k in range(4):
        y = torch.clamp_max(torch.clamp_min(y * (1.0 + 1e-3 * k) + 0.5, -3.0), 3.0)
      return y

    made = torch.compile(elements) if compiled else elements

    def run():
      x.copy_(made(x))
      synchronize()

    return run

  def resnet50():
    import torchvision
    model = torchvision.models.resnet50(weights=None).cuda().to(memory_format=torch.channels_last)
    return model

  def images(count):
    return torch.randn(count, 3, 224, 224).cuda().to(memory_format=torch.channels_last)

  def resnet50_inference():
    model, x = resnet50().bfloat16().eval(), images(32)
    scale = torch.tensor(1.0)
    return torch.no_grad()(lambda: model((x * scale.cuda()).bfloat16()).float().cpu())

  def resnet50_training():
    model, x, loss_of = resnet50().train(), images(64), torch.nn.CrossEntropyLoss()
    y = torch.randint(0, 1000, (64,)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, fused=True)

    def step():
      optimizer.zero_grad(set_to_none=True)
      with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = loss_of(model(x), y)
      loss.backward()
      optimizer.step()
      return loss.item()

    return step

  def transformer_block():
    batch, length, width, heads = 8, 512, 1024, 16
    nn, functional = torch.nn, torch.nn.functional
    norms = [nn.LayerNorm(width) for _ in range(2)]
    linears = [nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False),
               nn.Linear(width, 4 * width), nn.Linear(4 * width, width)]
    for layer in norms + linears:
      layer.cuda().bfloat16()
    sequences, scale = torch.randn(batch, length, width).cuda().bfloat16(), torch.tensor(1.0)

    def run():
      x = sequences * scale.cuda().bfloat16()
      parts = linears[0](norms[0](x)).view(batch, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
      mixed = functional.scaled_dot_product_attention(*parts).transpose(1, 2)
      y = x + linears[1](mixed.reshape(batch, length, width))
      z = functional.gelu(linears[2](norms[1](y)), approximate="tanh")
      return (y + linears[3](z)).float().sum((1, 2)).cpu()

    return torch.no_grad()(run)

  yield "tiny_function", "eager", 300, tiny
  yield "mlp_inference", "eager", 300, inference
  yield "mlp_adam_step", "eager, fused Adam", 50, lambda: adam_step(torch, False)
  yield "mlp_adam_step", "CUDA graph", 50, lambda: adam_step(torch, True)
  yield "while_1000", "eager", 2, loop
  yield "matmul_bf16", "eager", 5, lambda: product(torch.bfloat16)
  yield "matmul_f32", "eager", 3, lambda: product(torch.float32)
  torch.backends.cuda.matmul.allow_tf32 = True
  yield "matmul_f32", "eager, TF32", 3, lambda: product(torch.float32), "--tf32"
  torch.backends.cuda.matmul.allow_tf32 = False
  yield "chain_1gib", "eager", 3, lambda: chain(False)
  yield "chain_1gib", "compiled", 3, lambda: chain(True)
  yield "resnet50_b32", "eager, channels_last, bfloat16", 10, resnet50_inference
  yield "resnet50_step", "eager, channels_last, autocast to bfloat16", 5, resnet50_training
  yield "transformer_block", "eager, SDPA, bfloat16", 20, transformer_block


def callers(engine, folder, calls, count):
  """Microseconds per call of `count` callers side by side: the median of 7 rounds."""
  process = subprocess.run(
      [engine, folder, str(calls), "--device=cuda:0", "--callers", str(count)],
      input="round\n" * 7, capture_output=True, text=True, check=True)
  return sorted(float(line.split()[1]) for line in process.stdout.splitlines())[3]


def main():
  p = argparse.ArgumentParser(description=__doc__)
  p.add_argument("--engine", required=True)
  p.add_argument("--functions", required=True)
  p.add_argument("--out", required=True)
  args = p.parse_args()
  try:
    import torch
  except ImportError:
    sys.exit("no PyTorch: nothing is measured")
  if not torch.cuda.is_available():
    sys.exit("no GPU that PyTorch can use: nothing is measured")
  print(torch.cuda.get_device_name(), "PyTorch", torch.__version__)
  results = []
  for name, how, calls, make, *flags in peers(torch):
    folder = os.path.join(args.functions, name)
    ours, theirs = (seconds * 1e6 for seconds in rounds.alternate(
        [args.engine, folder, str(calls), "--device=cuda:0", *flags], make(), calls,
        time.perf_counter))
    torch.cuda.empty_cache()
    print("%-16s %10.1f us %10.1f us  %.2f of PyTorch, %s" % (name, ours, theirs, ours / theirs, how),
          flush=True)
    results.append({"name": name, "unit": "us_wall", "ours": ours, "peer": theirs,
                    "peer_name": "pytorch, " + how, "ratio": ours / theirs})
  for name, calls in [("tiny_function", 500), ("tiny_state", 500), ("mlp_inference", 300),
                      ("mlp_adam_step", 50)]:
    one, eight = (callers(args.engine, os.path.join(args.functions, name), calls, n)
                  for n in (1, 8))
    print("%-16s %10.1f us %10.1f us  %.1f times the throughput with 8 callers" %
          (name, one, eight, one / eight), flush=True)
    results.append({"name": name + ", 8 callers", "unit": "us_wall", "ours": eight, "peer": one,
                    "peer_name": "1 caller", "ratio": eight / one})
  with open(args.out, "w") as f:
    json.dump(results, f, indent=1)


if __name__ == "__main__":
  main()
