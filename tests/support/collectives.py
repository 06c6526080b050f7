"""What torchrun starts to see which collectives a training step calls, and with how many bytes.

torchrun --nproc-per-node=2 -m support.collectives RESULT.json SETTING
"""

import json
import sys
from pathlib import Path

import torch.distributed as dist

from arcset.planning import Setting
from arcset.planning.trial import Trial
from support.gloo import process_group


def main():
    result, words = sys.argv[1:]
    content = json.loads(words)
    trial = Trial(Setting(**{**content, "shape": tuple(content["shape"])}))
    calls, gather, reduce = [], dist.all_gather, dist.all_reduce

    def gathered(parts, own, *rest, **options):
        calls.append(["all_gather", sum(part.numel() * part.element_size() for part in parts)])
        return gather(parts, own, *rest, **options)

    def reduced(values, *rest, **options):
        calls.append(["all_reduce", values.numel() * values.element_size()])
        return reduce(values, *rest, **options)

    dist.all_gather, dist.all_reduce = gathered, reduced
    trial.step()
    dist.all_gather, dist.all_reduce = gather, reduce
    if dist.get_rank() == 0:
        Path(result).write_text(json.dumps(calls), encoding="utf-8")


if __name__ == "__main__":
    with process_group():
        main()
