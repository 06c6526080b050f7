"""What torchrun starts to see which collectives a training step calls, and with how many bytes.

torchrun --nproc-per-node=2 -m support.collectives RESULT.json SETTING
"""

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from arcset.planning import Setting
from arcset.planning.trial import Trial


def main():
    result, words = sys.argv[1:]
    content = json.loads(words)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
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
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    os._exit(0)  # threads of gloo's may abort a process while Python tidies up behind it
