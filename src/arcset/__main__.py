"""`python -m arcset`, the same as the command `arcset`."""

from arcset.cli import main

if __name__ == "__main__":
    main()
