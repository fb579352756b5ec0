"""What lesson 17 shows of GPT-2 124M on a GPU, measured.

    python3 -m llmc.course.lessons.gpu_training.measured OUT.json --data DIR

    --data DIR      has tiny_shakespeare_train.bin, tiny_shakespeare_val.bin and gpt2_tokenizer.bin of llm.c
    --preset, -B, -T, --steps, --long       smaller, to try it on the emulator

It needs CuPy, NumPy and tiktoken, and no network. The weights are those of `llmc init --preset d12`, drawn at random:
OpenAI's are not asked for.
"""

import argparse
import json
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

from llmc import cuda, kernels
from llmc.backends import get_backend
from llmc.bench import gpu_profile
from llmc.bench.kernels import times
from llmc.bench.torch_step import torch_step
from llmc.config import preset
from llmc.course.lessons.gpu_training import timeline
from llmc.course.lessons.gpu_training.fusing import fusions
from llmc.course.lessons.gpu_training.waiting import PRECISIONS, WARM_UP, in_numbers, random_batches, timelines, waits
from llmc.cuda import recorder
from llmc.data.loader import DataLoader
from llmc.data.tokenizer import END_OF_TEXT, read_tokenizer
from llmc.evaluation import batch_losses
from llmc.kernels import cublas
from llmc.model import GPT2
from llmc.precision import find_precision
from llmc.sampling import generate

FIRST = 20  # steps that PyTorch takes, too
VAL_EVERY = 74  # steps: an epoch of B=4 T=1024


def main(words=None):
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python3 -m llmc.course.lessons.gpu_training.measured")
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--preset", default="d12")
    for name, number in (("-B", 4), ("-T", 1024), ("--steps", 74), ("--long", 740)):
        parser.add_argument(name, type=int, default=number)
    given = parser.parse_args(words)
    model, found = here(given.preset, given.B, given.T)
    found |= dict(training=training(model, given))
    found |= dict(peer=peer(model, given)) if find_spec("torch") else {}
    given.out.write_text(json.dumps(found, separators=(",", ":"), allow_nan=False), encoding="utf-8")


def here(name, B, T):
    """The model, with new weights, and everything but the training: {"about": …, "memory": …, …}."""
    model, about = new_model(name), dict(device="the emulator", preset=name, B=B, T=T)
    if cuda.device() == "gpu":
        import cupy

        version = cupy.cuda.runtime.runtimeGetVersion()
        about |= dict(device=cuda.name_of_gpu(), cupy=cupy.__version__, cublas=cublas.description())
        about |= dict(cuda=f"{version // 1000}.{version % 1000 // 10}")
        about |= dict(limits={numbers: times.limits(numbers == "TF32") for numbers in ("TF32", "float32")})
    found = dict(about=about, memory=memory(model, B, T), launches=launches(model, B, T), waits=waits(model, B, T))
    found |= dict(timelines=timelines(model, B, T), fusions=fusions(model.config, B, T))
    return model, found | (dict(profile=profiles(model, B, T)) if cuda.device() == "gpu" else {})


def new_model(name):
    """With weights drawn at random, always the same."""
    model = GPT2(preset(name), "cuda")
    model.init_weights()
    return model


def memory(model, B, T) -> dict:
    """Bytes that the pool holds after a few steps, with all scratch memory."""
    model.allocate(B, T)
    planned = model.memory_plan(B, T)
    for x, y in random_batches(model, B, T)[:WARM_UP]:
        timeline.ahead(model, x, y)
    cuda.synchronize()
    held = cuda.xp.get_default_memory_pool().used_bytes() if cuda.device() == "gpu" else None
    return dict(held_bytes=held, plan_total=planned.splitlines()[-1].strip())


def launches(model, B, T) -> dict:
    """{kernel: launches in a step}, without graphs; "graphs": how many graphs a step is recorded as."""
    counts, before = {}, recorder.graphs()

    def watch(name, launch):
        counts[name] = counts.get(name, 0) + 1
        return launch()

    recorder.graphs(False)
    with kernels.watched(watch):
        timeline.ahead(model, *random_batches(model, B, T)[0])
    recorder.graphs(before)
    return dict(kernels=counts, graphs=recorder.recorded())


# ------------------------------------------------------------------------------------------------------------ profile


def profiles(model, B, T) -> dict:
    """{"TF32", "float32": {"functions": [[name, calls, ms, floor ms or None]]}, "hurried": {name: ms in TF32}}.

    The slowest first; medians of a few steps. hurried: what events say when the GPU waits for the host's launches.
    """
    spin = cuda.RawKernel(gpu_profile.SPIN, "spin")
    patient = lambda backend: gpu_profile.PatientBackend(backend, spin)  # noqa: E731
    found = {numbers: dict(functions=_functions(model, B, T, numbers, patient)) for numbers in PRECISIONS}
    hurried = _functions(model, B, T, "TF32", gpu_profile.EventBackend)
    return found | dict(hurried={name: ms for name, _, ms, _ in hurried})


def _functions(model, B, T, numbers, of_events, steps=4) -> list:
    """[name, calls, ms, floor ms or None] of each function; of_events: from a backend to one that records events."""
    found, precision = [], find_precision(PRECISIONS[numbers])
    for x, y in random_batches(model, B, T)[:steps]:
        timed = of_events(get_backend("cuda", precision))
        with timeline.backend(model, timed), kernels.watched(timed.watch):
            timeline.ahead(model, x, y)
        cuda.synchronize()
        found.append((1.0, gpu_profile._sums(timed.spans, gpu_profile._rates(precision))))
    rows = gpu_profile._table(found[1:])["rows"]  # the first step compiles
    rows = [row for row in rows if row["kernel"] is None]
    return [[r["function"], r["calls"], round(r["ms"], 4), r["floor_ms"] and round(r["floor_ms"], 4)] for r in rows]


# ----------------------------------------------------------------------------------------------------------- training


def training(model, given) -> dict:
    """Runs on tinyshakespeare: TF32 twice and float32 once for an epoch, and a longer one, with text at both ends."""
    text = read_tokenizer(given.data / "gpt2_tokenizer.bin")

    def again(numbers, steps):
        reset(model, given.preset)
        return in_numbers(model, numbers, lambda: run(model, given, steps))

    def written():
        ids = generate(model, [text.eot_token], 96, temperature=0.8, seed=1337)  # past the end of a section, too
        return text.decode(list(ids)).replace(END_OF_TEXT, "")

    first, bits = again("TF32", given.steps), model.params.flat.copy()
    second = again("TF32", given.steps)
    equal = bool((bits == model.params.flat).all()) and first["losses"] == second["losses"]
    sample, exact = written(), again("float32", given.steps)
    longer = again("TF32", given.long)
    result = dict(lr=timeline.LR, betas=[0.9, 0.999], weight_decay=0.0, TF32=second, float32=exact, longer=longer)
    return result | dict(equal_bits=equal, sample=sample, longer_sample=written())


def reset(model, name):
    """The first weights again, no gradients, and a new optimizer."""
    model.params.flat[...] = new_model(name).params.flat
    model.zero_grad()
    model.zero_optimizer()


def run(model, given, steps) -> dict:
    """losses (nats) of `steps` steps in the order of the file, [(step, validation loss)], wall seconds of the steps."""
    shape = dict(B=given.B, T=given.T, V=model.config.V)
    train, val = (DataLoader(given.data / f"tiny_shakespeare_{part}.bin", **shape) for part in ("train", "val"))
    batches, losses, seconds = min(val.num_batches, 7), [], 0.0
    validate = lambda: (len(losses), round(sum(batch_losses(model, val, batches)) / batches, 6))  # noqa: E731
    validations = [validate()]
    for begin in range(0, steps, VAL_EVERY):
        cuda.synchronize()
        start = perf_counter()
        later = [timeline.ahead(model, *train.next_batch()) for _ in range(min(VAL_EVERY, steps - begin))]
        cuda.synchronize()
        seconds += perf_counter() - start
        losses += [round(loss(), 6) for loss in later]
        validations.append(validate())
    return dict(losses=losses, val=validations, seconds=seconds)


def peer(model, given) -> dict:
    """{"constant" or "warm-up" (of FIRST steps): {"llmc" or "PyTorch": losses of the first steps in float32}}."""

    def ours(x, y, lr):
        loss = model.forward(x, y, dloss=1.0)
        model.backward()
        model.update(lr=lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, zero_grad=True)
        return loss

    def losses(take, rates):
        train = DataLoader(given.data / "tiny_shakespeare_train.bin", B=given.B, T=given.T, V=model.config.V)
        return [round(float(take(*train.next_batch(), lr=lr)), 5) for lr in rates]

    def both(rates):
        reset(model, given.preset)
        theirs = torch_step(model, betas=(0.9, 0.999))
        return dict(PyTorch=losses(theirs, rates), llmc=losses(ours, rates))

    rates = dict(constant=[timeline.LR] * FIRST)
    rates |= {"warm-up": [timeline.LR * (i + 1) / FIRST for i in range(FIRST)]}
    return {name: in_numbers(model, "float32", partial(both, each)) for name, each in rates.items()}


if __name__ == "__main__":
    sys.exit(main())
