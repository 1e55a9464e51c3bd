"""`python -m muster`: the command line, for example where the folder of scripts is not on the PATH."""

from muster.cli import main

if __name__ == "__main__":
    main()
