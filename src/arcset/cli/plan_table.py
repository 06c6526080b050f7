"""A plan as people read it."""

from arcset.planning import Machine, Plan, show_bytes, show_count, show_seconds
from arcset.planning.advice import Change

__all__ = ["plan_text"]

_BAR = 24  # characters of the longest bar
_SMALL = 0.002  # of the whole: parts below it are added up


def plan_text(plan: Plan, *, said: bool) -> str:
    """Tables, then sentences. `said`: whether the user named the memory."""
    blocks = [_head(plan), _memory(plan)]
    if plan.traffic:
        blocks.append(_traffic(plan))
    if plan.seconds:
        blocks.append(_time(plan))
    blocks.append(_verdict(plan, said))
    if plan.changes:
        blocks.append(_changes(plan))
    blocks.append(_footnotes(plan))
    return "\n\n".join(blocks)


def _head(plan: Plan) -> str:
    setting = plan.setting
    per_class = "" if setting.subcenters == 1 else f", {setting.subcenters} centers each"
    lines = [
        f"{show_count(setting.classes)} identities × {setting.dim} dimensions{per_class}, "
        f"{setting.loss}, {setting.storage}"
    ]
    if setting.processes == 1:
        lines.append(f"one process, batch {setting.batch:,}")
    else:
        lines.append(
            f"{setting.processes:,} processes: {show_count(setting.own_classes)} identities in "
            f"each, batch {setting.batch:,} each, {setting.together:,} together"
        )
    if setting.sample < 1:
        lines.append(f"{show_count(setting.taking_part)} identities of a process in each step")
    return "\n".join(lines)


def _memory(plan: Plan) -> str:
    peak, total = plan.memory.peak, plan.memory.total
    parts = {"Python, torch and arcset": plan.memory.process, **peak.parts}
    large = {name: size for name, size in parts.items() if size >= _SMALL * total}
    rest = total - sum(large.values())
    rows = sorted(large.items(), key=lambda part: -part[1])
    if rest:
        rows.append(("all else", rest))
    title = f"Memory of a process, at its largest in {peak.name}"
    cells = [(name, show_bytes(size), size / total) for name, size in rows]
    return _barred(title, cells, ("in all", show_bytes(total)))


def _traffic(plan: Plan) -> str:
    width = max(len(one.what) for one in plan.traffic)
    lines = ["Sent by a process in a step (and as much received)"]
    lines += [
        f"  {one.what:{width}}  {one.how}  {show_bytes(one.sent):>10}" for one in plan.traffic
    ]
    total = show_bytes(sum(one.sent for one in plan.traffic))
    return "\n".join([*lines, f"  {'in all':{width}}  {'':10}  {total:>10}"])


def _time(plan: Plan) -> str:
    total = sum(plan.seconds.values())
    cells = [
        (name, show_seconds(value), value / total)
        for name, value in sorted(plan.seconds.items(), key=lambda part: -part[1])
        if value
    ]
    return _barred("Time of a step, at least", cells, ("in all", show_seconds(total)))


def _barred(title: str, cells: list[tuple[str, str, float]], last: tuple[str, str]) -> str:
    width = max(len(name) for name in (last[0], *(cell[0] for cell in cells)))
    longest = max(cell[2] for cell in cells)
    lines = [title]
    for name, text, share in cells:
        bar = "█" * round(_BAR * share / longest) or "▏"
        lines.append(f"  {name:{width}}  {text:>10}  {share:4.0%}  {bar}")
    return "\n".join([*lines, f"  {last[0]:{width}}  {last[1]:>10}"])


def _verdict(plan: Plan, said: bool) -> str:
    limit, total, setting = plan.limit, plan.memory.total, plan.setting
    where = f"{show_bytes(limit)} a process"
    if not said:
        each = "" if setting.processes == 1 else ", taken as those of each process"
        where = f"the {show_bytes(limit)} that are free here{each}"
    if plan.fits:
        lines = [f"It fits into {where}: {show_bytes(limit - total)} are left."]
    else:
        lines = [f"It does not fit into {where}: {show_bytes(total - limit)} are missing."]
    if plan.most is None:
        lines.append("Not even one identity a process would fit so.")
    else:
        lines.append(
            f"As it stands, {show_count(plan.most)} identities fit at most"
            + ("." if setting.processes == 1 else f" with {setting.processes:,} processes.")
        )
    if plan.fewest is None:
        lines.append("No number of processes would fit with a batch as large in each.")
    elif plan.fewest == 1:
        lines.append("One process would do." if setting.processes > 1 else "One process will do.")
    elif not plan.fits and plan.fewest < setting.processes:
        lines.append(
            f"{plan.fewest:,} processes would do: each sees the batch of all, "
            "and with more of them that grows."
        )
    else:
        lines.append(f"It takes {plan.fewest:,} processes at least.")
    return "\n".join(lines)


def _changes(plan: Plan) -> str:
    rows = [(change.words, _words(change), show_bytes(change.total)) for change in plan.changes]
    wide = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = ["What needs less"]
    for (words, options, size), change in zip(rows, plan.changes, strict=True):
        time = "" if change.seconds is None else f"{show_seconds(change.seconds):>10}  "
        mark = "fits" if change.fits else "does not fit"
        lines.append(f"  {words:{wide[0]}}  {options:{wide[1]}}  {size:>10}  {time}{mark}")
    return "\n".join(lines)


def _words(change: Change) -> str:
    return " ".join(f"--{name} {value}" for name, value in change.options.items())


def _footnotes(plan: Plan) -> str:
    how = {
        "store": "All logits are kept for the way back",
        "recompute": "Logits are formed anew on the way back",
        "plain": "All logits are formed at once",
    }[plan.memory.mode]
    chunk = min(plan.memory.chunk, plan.setting.taking_part)
    lines = [
        f"{how}; {show_count(chunk)} identities are taken at a time (mode {plan.memory.mode})."
    ]
    each = plan.bytes_per_class
    lines.append(f"An identity's center and its optimizer's state take {each:,.0f} bytes.")
    machine = plan.machine
    if machine is not None:
        lines.append(f"Time by the rates of {machine.name}: {_rates(machine)}.")
        if plan.traffic and not machine.network:
            lines.append("Traffic is not in that time: say --network-speed.")
    if plan.setting.device == "cuda":
        lines.append("What CUDA itself takes of the device is not counted.")
    return "\n".join(lines)


def _rates(machine: Machine) -> str:
    found = [
        f"{machine.flops / 1e9:,.0f} GFLOP/s in products",
        f"{machine.passes / 1e9:,.1f} GB/s in passes over logits",
        f"{machine.bandwidth / 1e9:,.1f} GB/s over memory",
        f"{machine.rows / 1e9:,.1f} GB/s of rows fetched by number",
    ]
    if machine.network:
        found.append(f"{machine.network / 1e9:,.2f} GB/s between processes")
    return ", ".join(found)
