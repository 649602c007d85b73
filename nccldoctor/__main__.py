"""Lets `python -m nccldoctor` be the command line."""

from nccldoctor.cli import main

if __name__ == "__main__":
    main(prog_name="nccldoctor")
