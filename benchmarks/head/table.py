"""Results as text."""

from typing import Any

QUIET = 0.05  # share of the processors that others may take
HEADS = ("ms", "× prealloc.", "× alloc.", "PML / it", "arccos / it", "peak / W")


def cell_table(cell: dict[str, Any]) -> str:
    """One row per contender: time, against the floors and the peers, and memory."""
    rows = cell["contenders"]
    lines = [
        "",
        f"{cell['classes']:,} classes, batch {cell['batch']}, {cell['dim']} dimensions, "
        f"W {cell['weight_bytes'] / 2**20:,.0f} MB, medians of {cell['rounds']}",
        f"{'':26}" + "".join(f"{head:>13}" for head in HEADS),
    ]
    medians = {name: row.get("median") for name, row in rows.items()}
    for name, row in rows.items():
        peers = ("pml", "arccos") if name in ("store", "recompute", "plain") else (None, None)
        cells = [
            _number(row["median"] * 1e3, 1) if "median" in row else "–",
            *(
                _ratio(row.get("median"), medians[floor])
                for floor in ("preallocated", "allocating")
            ),
            *(_ratio(medians.get(peer), row.get("median")) for peer in peers),
            _number(row["memory"]["weights"], 2) if "weights" in row.get("memory", {}) else "–",
        ]
        why = row.get("skipped"), row.get("memory", {}).get("skipped")
        note = "".join(
            f"  no {what}: {reason}"
            for what, reason in zip(("time", "peak"), why, strict=True)
            if reason
        )
        lines.append(f"{row['label']:26}" + "".join(f"{text:>13}" for text in cells) + note)
    if (cell["others"] or 0) > QUIET:
        lines.append(
            f"NOT ALONE: others took {cell['others']:.0%} of the processors while the clock ran; "
            "these times mean little"
        )
    return "\n".join(lines)


def bar_table(bars: list[dict[str, Any]]) -> str:
    """One line per bar: what, the measured figure, the wanted one, and whether it is met."""
    if not bars:
        return "\nbars: none of their sizes ran"
    lines = ["", "bars (batch 128, 512 dimensions)"]
    for bar in bars:
        wanted = f"{bar['side']} {bar['limit']:g}"
        verdict = "met" if bar["met"] else "NOT met"
        what = f"{bar['classes']:>9,}  {bar['what']}"
        lines.append(f"{what:76}{bar['figure']:8.2f}   {wanted:14}{verdict}")
    return "\n".join(lines)


def _ratio(of: float | None, to: float | None) -> str:
    return _number(of / to, 2) if of and to else "–"


def _number(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}"
