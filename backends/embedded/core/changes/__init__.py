"""The changes of the store. Each change is a value; the writer applies it to a group and commits the group.

`objects` are buckets and S3 objects, `uploads` are multipart uploads, `archives` and `access` are TSM's.
"""
