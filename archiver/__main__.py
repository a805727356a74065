"""``python -m archiver``."""

from archiver.cli import main

if __name__ == "__main__":
    main(prog_name="archiver")
