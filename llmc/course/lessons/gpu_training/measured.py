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
from llmc.bench.kernels import times
from llmc.bench.torch_step import torch_step
from llmc.config import preset
from llmc.course.lessons.gpu_training import timeline
from llmc.course.lessons.gpu_training.fusing import fusions
from llmc.course.lessons.gpu_training.profiling import profiles
from llmc.course.lessons.gpu_training.waiting import WARM_UP, in_numbers, random_batches, timelines, waits
from llmc.cuda import recorder
from llmc.data.loader import DataLoader
from llmc.data.tokenizer import END_OF_TEXT, read_tokenizer
from llmc.evaluation import batch_losses
from llmc.kernels import cublas
from llmc.model import GPT2
from llmc.sampling import generate

FIRST = 20  # steps that PyTorch takes, too
VAL_EVERY = 74  # steps: an epoch of B=4 T=1024


def main(words=None):
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python3 -m llmc.course.lessons.gpu_training.measured")
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--preset", default="d12")
    parser.add_argument("-B", type=int, default=4)
    parser.add_argument("-T", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=74)
    parser.add_argument("--long", type=int, default=740)
    parser.add_argument("--only-training", action="store_true", help="nothing but the runs on tinyshakespeare")
    parser.add_argument("--only-peer", action="store_true", help="nothing but their first steps, and PyTorch's")
    given = parser.parse_args(words)
    start, result = perf_counter(), {}

    def done(**part):  # written after each part: a run that is cut off leaves what it has
        result.update(part)
        given.out.write_text(json.dumps(result, separators=(",", ":"), allow_nan=False), encoding="utf-8")
        print(f"{perf_counter() - start:6.1f} s  {', '.join(part)}", flush=True)

    done(about=about(given))
    model = GPT2(preset(given.preset), "cuda")
    model.init_weights()
    weights = cuda.asnumpy(model.params.flat).copy()  # (n,), on the host: not counted as the model's memory
    if given.only_peer:
        return done(peer=peer(model, weights, given))
    if given.only_training:
        return done(training=training(model, weights, given))
    done(memory=memory(model, given.B, given.T))
    done(launches=launches(model, given.B, given.T))
    done(waits=waits(model, given.B, given.T))
    done(timelines=timelines(model, given.B, given.T))
    done(fusions=fusions(model.config, given.B, given.T))
    if cuda.device() == "gpu":
        done(profile=profiles(model, given.B, given.T))
    done(training=training(model, weights, given))
    if find_spec("torch"):
        done(peer=peer(model, weights, given))


def here(about_it) -> dict:
    """Everything but the training, on this GPU, for the preset, B and T of stored results."""
    B, T = about_it["B"], about_it["T"]
    model = GPT2(preset(about_it["preset"]), "cuda")
    model.init_weights()
    found = dict(about=about(argparse.Namespace(preset=about_it["preset"], B=B, T=T)))
    found |= dict(memory=memory(model, B, T), launches=launches(model, B, T), waits=waits(model, B, T))
    found |= dict(timelines=timelines(model, B, T), fusions=fusions(model.config, B, T))
    return found | dict(profile=profiles(model, B, T))


def about(given) -> dict:
    """Where and on what this was measured."""
    if cuda.device() == "emulator":
        return dict(device="the emulator", preset=given.preset, B=given.B, T=given.T)
    import cupy

    runtime = cupy.cuda.runtime.runtimeGetVersion()
    return dict(
        device=cuda.name_of_gpu(),
        cupy=cupy.__version__,
        cuda=f"{runtime // 1000}.{runtime % 1000 // 10}",
        cublas=cublas.description(),
        preset=given.preset,
        B=given.B,
        T=given.T,
        limits={numbers: times.limits(numbers == "TF32") for numbers in ("TF32", "float32")},
    )


# ------------------------------------------------------------------------------------------------------------- memory


def memory(model, B, T) -> dict:
    """Bytes that the pool holds after a few steps, with all scratch memory."""
    model.allocate(B, T)
    planned = model.memory_plan(B, T)
    batches = random_batches(model, B, T)
    for i in range(WARM_UP):
        timeline.ahead(model, *batches[i])
    cuda.synchronize()
    held = cuda.xp.get_default_memory_pool().used_bytes() if cuda.device() == "gpu" else None
    return dict(held_bytes=held, plan_total=planned.splitlines()[-1].strip())


# ----------------------------------------------------------------------------------------------------------- launches


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


# ----------------------------------------------------------------------------------------------------------- training


def training(model, weights, given) -> dict:
    """Runs on tinyshakespeare: TF32 twice and float32 once for an epoch, and a longer one, with text at both ends."""
    text = read_tokenizer(given.data / "gpt2_tokenizer.bin")

    def again(numbers, steps):
        model.params.flat[...] = cuda.asarray(weights)
        model.zero_grad()
        model.zero_optimizer()
        return in_numbers(model, numbers, lambda: run(model, given, steps))

    def written():
        ids = generate(model, [text.eot_token], 96, temperature=0.8, seed=1337)  # past the end of a section, too
        return text.decode(list(ids)).replace(END_OF_TEXT, "")

    first = again("TF32", given.steps)
    bits = model.params.flat.copy()
    second = again("TF32", given.steps)
    equal = bool((bits == model.params.flat).all())
    sample = written()
    exact = again("float32", given.steps)
    longer = again("TF32", given.long)
    equal &= first["losses"] == second["losses"]
    result = dict(lr=timeline.LR, betas=[0.9, 0.999], weight_decay=0.0, TF32=second, float32=exact, longer=longer)
    return result | dict(equal_bits=equal, sample=sample, longer_sample=written())


def run(model, given, steps) -> dict:
    """losses (nats) of `steps` steps in the order of the file, [(step, validation loss)], wall seconds of the steps."""
    shape = dict(B=given.B, T=given.T, V=model.config.V)
    train = DataLoader(given.data / "tiny_shakespeare_train.bin", **shape)
    val = DataLoader(given.data / "tiny_shakespeare_val.bin", **shape)
    batches = min(val.num_batches, 7)
    losses, validations, seconds = [], [], 0.0

    def validate(step):
        validations.append((step, round(sum(batch_losses(model, val, batches)) / batches, 6)))

    validate(0)
    for begin in range(0, steps, VAL_EVERY):
        cuda.synchronize()
        start = perf_counter()
        later = [timeline.ahead(model, *train.next_batch()) for _ in range(min(VAL_EVERY, steps - begin))]
        cuda.synchronize()
        seconds += perf_counter() - start
        losses += [round(loss(), 6) for loss in later]
        validate(len(losses))
    return dict(losses=losses, val=validations, seconds=seconds)


def peer(model, weights, given) -> dict:
    """{"constant" or "warm-up" (of FIRST steps): {"llmc" or "PyTorch": losses of the first steps in float32}}."""
    shape = dict(B=given.B, T=given.T, V=model.config.V)

    def losses(take, rates):
        train = DataLoader(given.data / "tiny_shakespeare_train.bin", **shape)
        return [round(float(take(*train.next_batch(), lr)), 5) for lr in rates]

    def ours(x, y, lr):
        loss = model.forward(x, y, dloss=1.0)
        model.backward()
        model.update(lr=lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, zero_grad=True)
        return loss

    def again(rates):
        model.params.flat[...] = cuda.asarray(weights)
        model.zero_grad()
        model.zero_optimizer()
        theirs = torch_step(model, betas=(0.9, 0.999))
        return dict(PyTorch=losses(lambda x, y, lr: theirs(x, y, lr=lr), rates), llmc=losses(ours, rates))

    model.allocate(given.B, given.T)
    rates = dict(constant=[timeline.LR] * FIRST)
    rates |= {"warm-up": [timeline.LR * (i + 1) / FIRST for i in range(FIRST)]}
    return {name: in_numbers(model, "float32", partial(again, each)) for name, each in rates.items()}


if __name__ == "__main__":
    sys.exit(main())
