"""Before anything is trained: how much memory, traffic and time a step will take, and what fits.

`make_plan` follows the code of `arcset.centers` and the losses; `arcset.planning.trial` takes a few
real steps, and the tests hold the two against each other.
"""

from arcset.planning.machine import Machine, measure_exchange, measure_machine
from arcset.planning.memory import Memory, Moment, plan_memory
from arcset.planning.plan import Plan, make_plan
from arcset.planning.quantities import parse_number, show_bytes, show_count, show_seconds
from arcset.planning.setting import Setting
from arcset.planning.traffic import Transfer, plan_traffic

__all__ = [
    "Machine",
    "Memory",
    "Moment",
    "Plan",
    "Setting",
    "Transfer",
    "make_plan",
    "measure_exchange",
    "measure_machine",
    "parse_number",
    "plan_memory",
    "plan_traffic",
    "show_bytes",
    "show_count",
    "show_seconds",
]
