"""InsightFace's files, read without mxnet and without running what a file asks for.

source = RecordSource(Path("faces_webface_112x112"))     # train.rec, train.idx, property
pairs = read_verification_bin(Path("lfw.bin"))           # encoded images two by two; same or not
"""

from arcset.data.insightface.records import RecordSource
from arcset.data.insightface.verification import VerificationPairs, read_verification_bin

__all__ = ["RecordSource", "VerificationPairs", "read_verification_bin"]
