"""``python -m benchmarks.peers``: build the clients that the comparison runs, where they are missing."""

from benchmarks.peers import minio_go, warp
from benchmarks.peers.go_programs import install

for program in (warp.PROGRAM, minio_go.PROGRAM):
    install(program)
