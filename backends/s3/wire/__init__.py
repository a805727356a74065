"""The S3 protocol as bytes: requests, signatures, replies, and the session with its socket.

Two other ways were measured and rejected. OpenSSL on the socket, without memory BIOs, copies less but sends each record
of 16 KiB by itself: the CPU is the same. A regular expression takes twice llhttp's time for a head.
"""
