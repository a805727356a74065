"""``python -m benchmarks.peers``: build the programs of the comparison that are missing."""

from archiver.platforms.programs import install_program
from archiver.values.errors import PlatformError
from benchmarks.peers.programs import MINIO_GO, WARP

for program in (WARP, MINIO_GO):
    try:
        print(install_program(program))
    except PlatformError as failed:
        print(failed)
