/* The numbers of the session protocol between this library and the TSM server of the embedded store. */
#ifndef PROTOCOL_H
#define PROTOCOL_H

#define PROTOCOL_VERSION 1

#define FRAME_HEADER 8u
#define DATA_BODY_MAX (1u << 20)
#define FRAME_BODY_MAX (DATA_BODY_MAX + 8192u)
#define FRAME_LAST 0x01 /* flag: the object ends with this frame */

#define ITERATIONS_MAX 100000u
#define NONCE_SIZE 16u
#define PASSWORD_LENGTH_MIN 8u /* only the client sees the password, so it is the client that checks */
#define ACCESS_RULES_MAX 1000u /* of one node */

enum frame_type {
    FRAME_HELLO = 0x01,
    FRAME_PROOF = 0x02,
    FRAME_PING = 0x10,
    FRAME_FIND_SPACE = 0x11,
    FRAME_REGISTER_SPACE = 0x12,
    FRAME_UPDATE_SPACE = 0x13,
    FRAME_DELETE_SPACE = 0x14,
    FRAME_CHANGE_PASSWORD = 0x15,
    FRAME_LOG = 0x16,
    FRAME_UPDATE_OBJECT = 0x17,
    FRAME_READ_FROM = 0x18,
    FRAME_SET_ACCESS = 0x19,
    FRAME_DELETE_ACCESS = 0x1A,
    FRAME_OBJECT = 0x20,
    FRAME_DATA = 0x21,
    FRAME_DELETE = 0x22,
    FRAME_EVENT = 0x23,
    FRAME_END_TRANSACTION = 0x24,
    FRAME_QUERY_ARCHIVES = 0x30,
    FRAME_QUERY_SPACES = 0x31,
    FRAME_STOP = 0x32,
    FRAME_QUERY_ACCESS = 0x33,
    FRAME_GET = 0x40,
    FRAME_BYE = 0x50,

    FRAME_CHALLENGE = 0x81,
    FRAME_WELCOME = 0x82,
    FRAME_REFUSED = 0x8F,
    FRAME_DATE = 0x90,
    FRAME_ANSWER = 0x91,
    FRAME_VOTE = 0x92,
    FRAME_WILL_ABORT = 0x93,
    FRAME_ARCHIVES = 0xB0,
    FRAME_STREAM_END = 0xB1,
    FRAME_SPACES = 0xB2,
    FRAME_RULES = 0xB3,
    FRAME_OBJECT_HEAD = 0xC0,
    FRAME_OBJECT_DATA = 0xC1,
    FRAME_OBJECT_FAILED = 0xC2,
};

#define DATE_NONE UINT64_C(0)
#define DATE_NEVER UINT64_MAX

#endif
