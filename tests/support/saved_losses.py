"""What several processes do in tests of losses on the disk.

Every variant is trained for some steps and saved, or read and given other classes. The first
process notes what all have together, and, after writing, what they say where one of them cannot.
"""

import json

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file

import arcset
from arcset.errors import RunError
from arcset.losses import export_loss, load_loss, regrow, save_loss, saving
from support.gloo import process_group

DIM, CLASSES, GROWN = 6, 23, 26
SMALL = {"_LARGE": 100, "_BLOCK": 200}  # bytes: so that there are several files and blocks
VARIANTS = {
    "plain": {"name": "arcface"},
    "rich": {"name": "adaface", "subcenters": 3, "bias": True, "update": "sgd"},
    "lean": {"name": "cosface", "storage": "bfloat16", "update": "adagrad", "sample": 0.5},
}
#: Of 26 classes now: three old ones removed, two merged, five new.
SOURCES = [[1], [2, 3], [], *([row] for row in range(5, CLASSES)), [], [], [], []]


def built(variant, classes=CLASSES, group=None):
    torch.manual_seed(5)
    return arcset.build_loss(dim=DIM, classes=classes, group=group, **VARIANTS[variant])


def batch(step):
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(16, DIM, generator=generator)
    return x, torch.randint(CLASSES, (16,), generator=generator)


def trained(variant, group=None):
    """After four steps, each process with all samples: what matters here is who has which."""
    loss = built(variant, group=group)
    optimizer = torch.optim.SGD(loss.parameters(), lr=0.1)
    for step in range(4):
        optimizer.zero_grad()
        loss(*batch(step)).backward()
        optimizer.step()
        loss.advance()
    return loss


def grown(variant, file, group=None):
    """The loss of a file with other classes."""
    with torch.device("meta"):
        old = built(variant)
    old.load_state_dict(load_file(file), assign=True)
    loss = built(variant, GROWN, group=group)
    new, length = regrow(loss, old, SOURCES)
    return loss, new, length


def noted(loss):
    """What all processes have together."""
    found = {"centers": loss.centers, "classes": loss.classify(batch(9)[0]).to(torch.int32)}
    found["first"] = loss.classify(batch(9)[0], 7).to(torch.int32)
    if loss.biases is not None:
        found["biases"] = loss.biases
    return found


def write(folder, group=None):
    for variant in VARIANTS:
        loss = trained(variant, group)
        save_loss(loss, folder / variant)
        export_loss(loss, folder / f"{variant}.safetensors")
        export_loss(loss, folder / f"{variant}-first.safetensors", classes=7)
        note(folder / f"{variant}.noted", noted(loss.eval()), group)


def read(folder, group=None):
    count = dist.get_world_size() if group else 0
    for variant in VARIANTS:
        loss = built(variant, group=group)
        load_loss(loss, folder / variant)
        note(folder / f"{variant}.read-{count}", noted(loss.eval()), group)
        loss, _, _ = grown(variant, folder / f"{variant}.safetensors", group)
        note(folder / f"{variant}.grown-{count}", noted(loss.eval()), group)
        try:
            save_loss(loss, folder / variant)
        except RunError:
            continue
        raise AssertionError("it was overwritten")


def refused(folder):
    """What one process cannot write, none of them writes, and none waits for it."""
    loss, said = built("plain", group=True), []
    (folder / "torn").mkdir(parents=True, exist_ok=True)
    (folder / "torn" / "a.safetensors").write_bytes(b"torn")
    (folder / "file").touch()
    for attempt in (
        lambda: export_loss(loss, folder / "file" / "loss.safetensors"),
        lambda: save_loss(loss, folder / "file" / "loss"),
        lambda: load_loss(loss, folder / "nothing"),
        lambda: load_loss(loss, folder / "torn"),
    ):
        try:
            attempt()
        except (RunError, OSError) as error:
            said.append(str(error))
    if dist.get_rank() == 0:
        save_loss(built("plain"), folder / "alone")  # all centers are here: nobody else is needed
    dist.barrier()
    every = [None] * dist.get_world_size()
    dist.all_gather_object(every, said)
    if dist.get_rank() == 0:
        (folder / "said.json").write_text(json.dumps(every))


def note(file, tensors, group):
    if not group or dist.get_rank() == 0:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, file)


def write_together(folder):
    vars(saving).update(SMALL)
    with process_group():
        write(folder, True)
        refused(folder / "refused")


def read_together(folder):
    vars(saving).update(SMALL)
    with process_group():
        read(folder, True)
