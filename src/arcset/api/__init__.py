"""What the shell does, from Python, with the same words: train, evaluate, compare.

run = arcset.train("faces/", out="runs/faces", loss="arcface", epochs=20)
run = arcset.train(dataset, network=module, out="runs/mine")     # any torch Dataset, any nn.Module
assessment = arcset.evaluate(run)
recognizer = arcset.Recognizer.load(run)
"""

from arcset.api.compare_runs import compare
from arcset.api.evaluate_run import evaluate
from arcset.api.train_run import Data, choose_settings, train

__all__ = ["Data", "choose_settings", "compare", "evaluate", "train"]
