"""`arcset plan`: memory, traffic and time of a training step, before it is tried."""

import re
from typing import Annotated, Any

import torch
import typer

from arcset.cli import options as o
from arcset.cli.output import print_result, working
from arcset.devices import free_memory
from arcset.errors import OptionError
from arcset.plan import Plan, Setting, plan_training
from arcset.text import columns, duration, plural

_CENTERS, _NETWORK, _MACHINE = "the centers", "the network", "the machine"
_NUMBER = re.compile(r"((?:\d[\d,_]{,20})?\.?\d{1,9}) ?(?:([kmgt])(i?)b?)?", re.IGNORECASE)


def _setting(name: str, panel: str | None = None) -> Any:
    return typer.Option(help=Setting.model_fields[name].description, rich_help_panel=panel)


def plan(
    context: typer.Context,
    classes: Annotated[
        str, typer.Option(metavar="N", help=Setting.model_fields["classes"].description)
    ],
    dim: Annotated[int, _setting("dim")] = 512,
    processes: Annotated[int, _setting("processes")] = 1,
    batch: Annotated[int, _setting("batch")] = 128,
    loss: Annotated[str, _setting("loss", _CENTERS)] = "arcface",
    subcenters: Annotated[int, _setting("subcenters", _CENTERS)] = 1,
    sample: Annotated[float, _setting("sample", _CENTERS)] = 1.0,
    storage: Annotated[str, _setting("storage", _CENTERS)] = "float32",
    update: Annotated[str, _setting("update", _CENTERS)] = "none",
    mode: Annotated[str, _setting("mode", _CENTERS)] = "auto",
    optimizer: Annotated[str, _setting("optimizer", _NETWORK)] = "sgd",
    network: Annotated[str | None, _setting("network", _NETWORK)] = None,
    size: Annotated[
        str,
        typer.Option(
            metavar="SIDE|C,H,W",
            help="Size of the images, or channels, height and width.",
            rich_help_panel=_NETWORK,
        ),
    ] = "112",
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES",
            help="Memory that each process may use, e.g. 32G or 24GiB; what is free here if left "
            "out.",
            rich_help_panel=_MACHINE,
        ),
    ] = None,
    device: Annotated[str, _setting("device", _MACHINE)] = "cpu",
    measure: Annotated[
        bool,
        typer.Option(
            help="Take a few steps here, at a size that fits.",
            rich_help_panel=_MACHINE,
        ),
    ] = True,
    json: o.Json = False,
) -> None:
    """Say what a training step will take: memory, traffic, time; and what fits.

    A few steps are tried in a process of its own with fewer identities and
    images. A formula says what that comes to at the size asked for.

    Exit code: 0 if it fits, 1 if it does not, 2 for settings that do not go
    together.

    Example: arcset plan --classes 100M --processes 64 --memory 32G
    """
    given = {name: value for name, value in context.params.items() if name in Setting.model_fields}
    sides = [int(side) if side.isdecimal() else 0 for side in size.split(",")]
    if len(sides) not in (1, 3) or not all(sides):
        raise OptionError(f"--size {size!r}: write a side, as 112, or channels,height,width")
    given["shape"] = (3, *sides, *sides) if len(sides) == 1 else sides
    setting = Setting(**{**given, "classes": _parse(classes, "--classes")})
    limit = _free(setting.device) if memory is None else _parse(memory, "--memory")
    with working("trying a few steps"):
        estimate = plan_training(setting, limit=limit, measured=measure)
    print_result(json, estimate.json(), _text(estimate))
    if not estimate.fits:
        raise typer.Exit(1)


def _parse(text: str, option: str) -> int:
    """500k, 100M, 1.5G; by 1,024 as 24Gi or 24GiB."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise OptionError(f"{option}: {text!r} is not a number such as 500k, 100M, 1.5G or 24GiB")
    digits, prefix, binary = match.groups()
    power = " kmgt".index(prefix.lower()) if prefix else 0
    return round(float(re.sub("[,_]", "", digits)) * (1024.0 if binary else 1000.0) ** power)


def _free(device: str) -> int:
    """Bytes that are free on the device meant."""
    if device == "cuda" and not torch.cuda.is_available():
        raise OptionError("--device cuda: there is none here; give --memory, as 32G")
    free = free_memory(torch.device(device))
    if not free:
        raise OptionError("this system does not say how much memory is free: give --memory, as 32G")
    return free


def _text(plan: Plan) -> str:
    """The plan as people read it."""
    setting, total, processes = plan.setting, plan.total, plan.setting.processes
    head = f"{setting.classes:,} identities × {setting.dim} dimensions, {setting.loss}"
    if processes > 1:
        head += f"; {setting.own_classes:,} in each of {processes:,} processes"
    parts = sorted(plan.parts.items(), key=lambda part: -part[1])
    rows = [(name, _size(size), f"{size / total:.0%}") for name, size in parts]
    rows.append(("total", _size(total), ""))
    lines = [head, "", columns(("memory of each process", "", ""), rows, right=(1, 2)), ""]
    if plan.fits:
        lines.append(f"It fits: {_size(plan.limit - total)} of {_size(plan.limit)} remain.")
    else:
        lines.append(f"It does not fit: {_size(total - plan.limit)} beyond {_size(plan.limit)}.")
    most = (
        f"At most {plan.most_classes:,} identities fit" if plan.most_classes else "None would fit"
    )
    lines.append(f"{most} in {plural(processes, 'process', 'processes')}.")
    fewest = plan.fewest_processes
    needed = plural(fewest, "process is", "processes are") if fewest else "No number of them is"
    lines.append(f"{needed} enough, with a batch of {setting.batch:,} in each.")
    if plan.changes:
        ways = [(_options(way), _size(plan.but(**way).total)) for way in plan.changes]
        lines += ["", columns(("what would fit", ""), ways, right=(1,))]
    return "\n".join([*lines, "", *_pace(plan)])


def _pace(plan: Plan) -> list[str]:
    """Lines on time and traffic, and on what they rest on."""
    setting, lines, step = plan.setting, [], sum(plan.seconds.values())
    if plan.dry is not None:
        shares = ", ".join(f"{name} {_time(value)}" for name, value in plan.seconds.items())
        million = duration(1e6 * step / setting.samples)
        lines.append(
            f"A step takes about {_time(step)} here ({shares}); a million images {million}."
        )
    if setting.processes > 1:
        sending = _time(plan.sent * 8 / 1e10)
        lines.append(f"Each process sends {_size(plan.sent)} in a step: {sending} at 10 Gbit/s.")
    if plan.dry is None:
        return [*lines, "By the formula alone; time would have to be measured."]
    tried = f"{plan.dry.setting.classes:,} identities"
    if plan.dry.images:
        tried += f" and {plural(plan.dry.images, 'image')}"
    return [*lines, f"Measured with {tried}, and scaled."]


def _options(way: dict[str, Any]) -> str:
    return " ".join(f"--{name} {value}" for name, value in way.items())


def _time(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 10 else duration(seconds)


def _size(size: float) -> str:
    """Bytes in MiB or GiB.

    >>> _size(3 << 20), _size(24 << 30)
    ('3.0 MiB', '24.0 GiB')
    """
    return f"{size / 2**30:,.1f} GiB" if size >= 2**30 else f"{size / 2**20:,.1f} MiB"
