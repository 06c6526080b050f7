"""Whether own data is in order before it is trained on: counts, broken files, wrong labels.

check = check_data("people")          # a folder tree, a table, records
print(check.table())                  # findings in plain words, worst first
contact_sheet(list_samples("people"), check).save("people.png")
"""

from arcset.data.checking.check import check_data
from arcset.data.checking.result import DataCheck, Finding, Twins
from arcset.data.checking.sheet import contact_sheet

__all__ = ["DataCheck", "Finding", "Twins", "check_data", "contact_sheet"]
