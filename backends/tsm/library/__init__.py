"""The TSM client library: its declarations, its calls, its codes, and its configuration files.

IBM's library and ours (C, with the ABI of the published headers, for any program of the TSM API) are treated alike.
ctypes structures are made from our header, and declarations that cannot be read are refused. cffi was rejected: 40 to
60 ms to parse and 1.9 MB more, compared with 4 ms.
"""
