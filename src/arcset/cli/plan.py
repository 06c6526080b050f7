"""`arcset plan`: memory, traffic and time of a training step, before it is tried."""

from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from arcset.centers import UPDATES
from arcset.cli import options as o
from arcset.cli.output import print_json, print_text, working
from arcset.cli.plan_table import plan_text
from arcset.devices import free_memory
from arcset.errors import OptionError
from arcset.networks import network_names
from arcset.planning import Machine, Setting, make_plan, parse_number, plan_memory

__all__ = ["plan"]

_CENTERS, _NETWORK, _MACHINE = "the centers", "the network", "the machine"


def plan(
    classes: Annotated[
        str, typer.Option(metavar="N", help="Identities: 500k, 100M, 1G; in all processes.")
    ],
    dim: Annotated[int, typer.Option(help="Dimension of the embedding.")] = 512,
    processes: Annotated[
        int, typer.Option(help="That share the centers, each with its part of the batch.")
    ] = 1,
    batch: Annotated[int, typer.Option(help="Samples per process and step.")] = 128,
    loss: Annotated[
        str,
        typer.Option(help="A margin; `arcset.loss_names()` has them.", rich_help_panel=_CENTERS),
    ] = "arcface",
    subcenters: Annotated[
        int, typer.Option(help="Centers per identity.", rich_help_panel=_CENTERS)
    ] = 1,
    sample: Annotated[
        float, typer.Option(help="Share of the identities in a step.", rich_help_panel=_CENTERS)
    ] = 1.0,
    storage: Annotated[
        str, typer.Option(help="float32 or bfloat16.", rich_help_panel=_CENTERS)
    ] = "float32",
    update: Annotated[
        str,
        typer.Option(
            help=f"none, or in the backward pass: {', '.join(UPDATES)}.", rich_help_panel=_CENTERS
        ),
    ] = "none",
    mode: Annotated[
        str, typer.Option(help="auto, store or recompute.", rich_help_panel=_CENTERS)
    ] = "auto",
    optimizer: Annotated[
        str, typer.Option(help="sgd or adamw, of all else.", rich_help_panel=_NETWORK)
    ] = "sgd",
    network: Annotated[
        str | None,
        typer.Option(
            help=f"Counted in if named: {', '.join(network_names())}; or timm:NAME.",
            rich_help_panel=_NETWORK,
        ),
    ] = None,
    size: Annotated[
        str,
        typer.Option(
            metavar="SIDE", help="Of its images: 112, or channels,H,W.", rich_help_panel=_NETWORK
        ),
    ] = "112",
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES",
            help="That a process may use, as 32G or 24GiB; what is free here if left out.",
            rich_help_panel=_MACHINE,
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.", rich_help_panel=_MACHINE)] = "cpu",
    machine: Annotated[
        str,
        typer.Option(
            metavar="here|none|FILE",
            help="Whose speed is meant: measured here, in seconds; none; or a saved one.",
            rich_help_panel=_MACHINE,
        ),
    ] = "here",
    flops: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            help="Of another machine, a process: 10T in float32 products.",
            rich_help_panel=_MACHINE,
        ),
    ] = None,
    bandwidth: Annotated[
        str | None,
        typer.Option(
            metavar="RATE", help="Its memory's bytes a second: 800G.", rich_help_panel=_MACHINE
        ),
    ] = None,
    network_speed: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            help="Bytes a second between processes: 3G, 25Gbit.",
            rich_help_panel=_MACHINE,
        ),
    ] = None,
    save_machine: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Keep the rates for --machine FILE.", rich_help_panel=_MACHINE
        ),
    ] = None,
    json: o.Json = False,
) -> None:
    """Say what a training step will take: memory, traffic, time; and what fits.

    Memory is what each process holds at its largest, part by part. Time is a
    floor, from rates measured here or told. Nothing is trained.

    Exit code: 0 if it fits, 1 if it does not, 2 for settings that do not go
    together.

    Example: arcset plan --classes 100M --processes 64 --memory 32G
    """
    setting = Setting(
        classes=parse_number(classes, "--classes"),
        dim=dim,
        processes=processes,
        batch=batch,
        loss=loss,
        subcenters=subcenters,
        sample=sample,
        storage=storage,
        update=None if update == "none" else update,
        optimizer=optimizer,
        mode=mode,
        network=network,
        shape=_shape(size),
        device=device,
    )
    limit = _free(device) if memory is None else parse_number(memory, "--memory")
    told = {
        name: None if text is None else parse_number(text, f"--{name.replace('_', '-')}")
        for name, text in (
            ("flops", flops),
            ("bandwidth", bandwidth),
            ("network_speed", network_speed),
        )
    }
    with working("measuring"):
        process = _process() if device == "cpu" else 0
        rates = _machine(machine, setting, limit, told)
    if save_machine is not None and rates is None:
        raise OptionError("--save-machine: there are no rates to keep with --machine none")
    found = make_plan(setting, limit=limit, process=process, machine=rates)
    if save_machine is not None and rates is not None:
        rates.save(save_machine)
    if json:
        print_json(found.json())
    else:
        print_text(plan_text(found, said=memory is not None))
    if not found.fits:
        raise typer.Exit(1)


def _free(device: str) -> int:
    """Bytes that are free here, on the device that is meant."""
    if device == "cuda" and not torch.cuda.is_available():
        raise OptionError("--device cuda: there is none here; say what one has, as --memory 32G")
    free = free_memory(torch.device(device))
    if not free:
        raise OptionError("this system does not tell what is free; say it, as --memory 32G")
    return free


def _process() -> int:
    """Bytes of a process that has done a small step and nothing else, as this one then has."""
    from arcset.planning.trial import warmed  # which imports all that training does

    return warmed()


def _machine(
    which: str, setting: Setting, limit: int, told: dict[str, int | None]
) -> Machine | None:
    """The rates: given, from a file, or measured."""
    flops, bandwidth, speed = told["flops"], told["bandwidth"], told["network_speed"]
    found: Machine | None
    if (flops is None) != (bandwidth is None):
        raise OptionError("--flops and --bandwidth describe a machine together: give both")
    if flops is not None and bandwidth is not None:
        if which != "here":
            raise OptionError("--machine and --flops name two machines: give one of them")
        found = Machine("a machine as told", flops, flops, bandwidth, bandwidth, bandwidth / 2)
    elif which == "none":
        found = None
    elif which == "here":
        found = _measured(setting, limit, exchange=speed is None and setting.processes > 1)
    else:
        found = Machine.load(Path(which))
    if speed is None:
        return found
    if found is None:
        raise OptionError("--network-speed says nothing without the rest of a machine")
    changes: dict[str, Any] = {"network": float(speed)}
    return found.but(**changes)


def _measured(setting: Setting, limit: int, *, exchange: bool) -> Machine:
    from arcset.planning import measure_exchange, measure_machine

    found = measure_machine(setting, plan_memory(setting, limit=limit).chunk)
    if setting.device != "cpu":
        found = found.but(name="this machine's processor, which is no GPU")
    if not exchange:
        return found
    speed, latency = measure_exchange()
    return found.but(network=speed, latency=latency)


def _shape(text: str) -> tuple[int, int, int]:
    try:
        sides = [int(part) for part in text.split(",")]
    except ValueError:
        sides = []
    if len(sides) not in (1, 3) or min(sides, default=0) < 1:
        raise OptionError(f"--size {text!r}: write a side, as 112, or channels,height,width")
    if len(sides) == 1:
        return 3, sides[0], sides[0]
    return sides[0], sides[1], sides[2]
