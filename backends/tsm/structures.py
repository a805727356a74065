"""The ABI of the TSM client API in Python: constants, structures, prototypes, named as in C.

One idea: nothing is laid out by hand. The fields stand in the order of the C header and ctypes aligns them as the
compiler does; a test compares every offset and every constant with it.

What a caller must know, since neither the compiler nor ctypes tells:

- Fill `stVersion` with the ...Version constant of the structure, also in output structures and in the structures
  inside others: it tells the library how many bytes it may touch.
- A pointer in a structure keeps nothing alive. Hold names, buffers and arrays of ids until the call returns.
- `c_char` arrays stop at the first NUL. objInfo may contain NULs, and so those fields are arrays of `c_ubyte`.
- `ObjAttr.objInfo` and `DataBlk.bufferPtr` take addresses; their lengths stand in fields of their own.
- `dsStruct64_t` is two halves, the high one first: `value = hi << 32 | lo`.
- PROTOTYPES must be set on every function: a return code has 16 bits, and the bits above it are not zero.
"""

from __future__ import annotations

from ctypes import (
    POINTER,
    Structure,
    Union,
    c_char,
    c_char_p,
    c_int,
    c_int16,
    c_int32,
    c_ubyte,
    c_uint8,
    c_uint16,
    c_uint32,
    c_void_p,
)
from typing import Any

# Base types.

dsInt16_t = c_int16
dsUint8_t = c_uint8
dsUint16_t = c_uint16
dsInt32_t = c_int32
dsUint32_t = c_uint32

dsmBool_t = c_int
dsmSendType = c_int
dsmQueryType = c_int
dsmGetType = c_int
dsmDelType = c_int
dsmAccessType = c_int
dsmEventType_t = c_int
dsmLogType = c_int
dsmLogSeverity = c_int
dsmDedupType = c_int
dsmFailOvrCfgType = c_int

bFalse = 0
bTrue = 1

DSM_API_VERSION = 8
DSM_API_RELEASE = 2
DSM_API_LEVEL = 1
DSM_API_SUBLEVEL = 0

# Lengths, without the NUL.

DSM_MAX_FSNAME_LENGTH = 1024
DSM_MAX_HL_LENGTH = 1024
DSM_MAX_LL_LENGTH = 256
DSM_MAX_DESCR_LENGTH = 255
DSM_MAX_MC_DESCR_LENGTH = 255
DSM_MAX_OBJINFO_LENGTH = 255
DSM_MAX_EXT_OBJINFO_LENGTH = 1500
DSM_MAX_ID_LENGTH = 64
DSM_MAX_NODE_LENGTH = 64
DSM_MAX_OWNER_LENGTH = 64
DSM_MAX_SERVERNAME_LENGTH = 64
DSM_MAX_VERIFIER_LENGTH = 64  # password
DSM_MAX_MC_NAME_LENGTH = 30
DSM_MAX_CG_NAME_LENGTH = 30
DSM_MAX_CG_DEST_LENGTH = 30
DSM_MAX_DOMAIN_LENGTH = 30
DSM_MAX_PS_NAME_LENGTH = 30
DSM_MAX_PLATFORM_LENGTH = 16
DSM_MAX_SERVERTYPE_LENGTH = 32
DSM_MAX_FSTYPE_LENGTH = 32
DSM_MAX_COMPRESSTYPE_LENGTH = 32
DSM_MAX_FSINFO_LENGTH = 500  # of the array, of which callers may use the next
DSM_MAX_USER_FSINFO_LENGTH = 480
DSM_MAX_SERVER_ADDRESS = 1024  # with the NUL
DSM_MAX_RC_MSG_LENGTH = 1024
DSM_PATH_MAX = 1024
DSM_NAME_MAX = 255
DSM_MIN_COMPRESS_SIZE = 2048

# Ids in one dsmGetList: whole objects, parts of objects.
DSM_MAX_GET_OBJ = 4080
DSM_MAX_PARTIAL_GET_OBJ = 1300

# Enumerations.

stBackup = 0
stArchive = 1
stBackupMountWait = 2
stArchiveMountWait = 3

qtArchive = 0
qtBackup = 1
qtBackupActive = 2
qtFilespace = 3
qtMC = 4
qtBackupGroups = 9
qtOpenGroups = 10
qtProxyNodeAuth = 12
qtProxyNodePeer = 13

gtBackup = 0
gtArchive = 1

dtArchive = 0
dtBackup = 1
dtBackupID = 2

atBackup = 0
atArchive = 1

eventRetentionActivate = 0
eventHoldObj = 1
eventReleaseObj = 2

logServer = 0
logLocal = 1
logBoth = 2
logNone = 3

logSevInfo = 0
logSevWarning = 1
logSevError = 2
logSevSevere = 3
logSevLicense = 4
logSevTryBuy = 5

dedupServerOnly = 0
dedupClientOrServer = 1

failOvrNotConfigured = 0
failOvrConfigured = 1
failOvrConnectedToReplServer = 2

# Values that are no enumerations.

DATE_MINUS_INFINITE = 0x0000
DATE_PLUS_INFINITE = 0xFFFF

DSM_SINGLETHREAD = bFalse
DSM_MULTITHREAD = bTrue

DSM_OBJ_FILE = 0x01
DSM_OBJ_DIRECTORY = 0x02
DSM_OBJ_WILDCARD = 0xFE
DSM_OBJ_ANY_TYPE = 0xFF

DSM_VOTE_COMMIT = 1
DSM_VOTE_ABORT = 2

DSM_REPOS_ALL = 0x01
DSM_ARCHIVE_REP = 0x0A
DSM_BACKUP_REP = 0x0B

ARCH_RETINIT_CREATE = 0
ARCH_RETINIT_EVENT = 1

DSM_ARCH_RETINIT_UNKNOWN = 0
DSM_ARCH_RETINIT_STARTED = 1
DSM_ARCH_RETINIT_PENDING = 2

DSM_ARCH_HELD_UNKNOWN = 0
DSM_ARCH_HELD_FALSE = 1
DSM_ARCH_HELD_TRUE = 2

DSM_OBJ_COMPRESSED_UNKNOWN = 0
DSM_OBJ_COMPRESSED_YES = 1
DSM_OBJ_COMPRESSED_NO = 2

COMPRESS_YES = 1
COMPRESS_NO = 2
COMPRESS_CD = 3  # the client decides
ARCHDEL_YES = 1
ARCHDEL_NO = 2
BACKDEL_YES = 1
BACKDEL_NO = 2

Copy_Serial_Static = 1
Copy_Serial_Shared_Static = 2
Copy_Serial_Shared_Dynamic = 3
Copy_Serial_Dynamic = 4
Copy_Mode_Modified = 1
Copy_Mode_Absolute = 2

DSM_ACTIVE = 0x01
DSM_INACTIVE = 0x02
DSM_ANY_MATCH = 0xFF

DSM_FSUPD_FSTYPE = 0x00000002
DSM_FSUPD_FSINFO = 0x00000004
DSM_FSUPD_BACKSTARTDATE = 0x00000008
DSM_FSUPD_BACKCOMPLETEDATE = 0x00000010
DSM_FSUPD_OCCUPANCY = 0x00000020
DSM_FSUPD_CAPACITY = 0x00000040

DSM_ARCHUPD_OWNER = 0x00000001
DSM_ARCHUPD_OBJINFO = 0x00000002
DSM_ARCHUPD_DESCR = 0x00000004
DSM_BACKUPD_OWNER = 0x00000001
DSM_BACKUPD_OBJINFO = 0x00000002
DSM_BACKUPD_MC = 0x00000004

MEDIA_FIXED = 0x10
MEDIA_LIBRARY = 0x20
MEDIA_NETWORK = 0x30
MEDIA_SHELF = 0x40
MEDIA_OFFSITE = 0x50
MEDIA_UNAVAILABLE = 0xF0

DSM_COMM_TCP = 1
DSM_COMM_NAMEDPIPE = 2
DSM_COMM_SHM = 3

DSM_PASSWD_PROMPT = 0
DSM_PASSWD_GENERATE = 1

DSM_ENCRYPT_NO = 0x00
DSM_ENCRYPT_USER = 0x01
DSM_ENCRYPT_CLIENTENCRKEY = 0x02
DSM_ENCRYPT_DES_56BIT = 0x04
DSM_ENCRYPT_AES_128BIT = 0x08
DSM_ENCRYPT_AES_256BIT = 0x10

DSM_USERAUTH_NONE = 0x0000
DSM_USERAUTH_ACCESS = 0x0001
DSM_USERAUTH_OWNER = 0x0002
DSM_USERAUTH_POLICY = 0x0004
DSM_USERAUTH_SYSTEM = 0x0008

DSM_GROUPTYPE_NONE = 0x00
DSM_GROUPTYPE_PEER = 0x02
DSM_GROUP_ACTION_BEGIN = 0x01
DSM_GROUP_ACTION_OPEN = 0x02
DSM_GROUP_ACTION_CLOSE = 0x03
DSM_GROUP_ACTION_ADD = 0x04
DSM_GROUP_ACTION_ASSIGNTO = 0x05
DSM_GROUP_ACTION_REMOVE = 0x06
DSM_MEMBERTYPE_LEADER = 0x01
DSM_MEMBERTYPE_MEMBER = 0x02


# stVersion of each structure that has one.

apiVersionExVer = 2
appVersionVer = 1
envSetUpVersion = 4
dsmInitExInVersion = 5
dsmInitExOutVersion = 3
ApiSessInfoVersion = 6
ObjAttrVersion = 4
DataBlkVersion = 3
sndArchiveDataVersion = 1
mcBindKeyVersion = 1
dsmEndSendObjExInVersion = 1
dsmEndSendObjExOutVersion = 3
dsmEndTxnExInVersion = 1
dsmEndTxnExOutVersion = 1
dsmEndGetDataExInVersion = 1
dsmEndGetDataExOutVersion = 1
PartialObjDataVersion = 1
dsmGetListVersion = 2
dsmGetListPORVersion = 3  # with partialObjData
regFSDataVersion = 1
dsmFSUpdVersion = 1
qryArchiveDataVersion = 1
qryMCDataVersion = 1
qryFSDataVersion = 1
qryBackupDataVersion = 2
qryABackupDataVersion = 1
qryBackupGroupsVersion = 3
qryProxyNodeDataVersion = 1
qryRespArchiveDataVersion = 7
qryRespMCDataVersion = 1
qryRespMCDetailDataVersion = 4
qryRespFSDataVersion = 4
qryRespAccessDataVersion = 1
qryRespBackupDataVersion = 8
qryARespBackupDataVersion = 2
qryRespProxyNodeDataVersion = 1
delBackVersion = 1
delArchVersion = 1
delBackIDVersion = 1
dsmObjlistVersion = 1
dsmRetentionEventInVersion = 1
dsmRetentionEventOutVersion = 1
dsmUpdateObjExInVersion = 1
dsmUpdateObjExOutVersion = 1
dsmRenameInVersion = 1
dsmRenameOutVersion = 1
dsmLogExInVersion = 2
dsmLogExOutVersion = 1
dsmGroupHandlerInVersion = 1
dsmGroupHandlerOutVersion = 1
requestBufferInVersion = 1
requestBufferOutVersion = 1
releaseBufferInVersion = 1
releaseBufferOutVersion = 1
getBufferDataInVersion = 1
getBufferDataOutVersion = 1
sendBufferDataInVersion = 1
sendBufferDataOutVersion = 1

# Parts of structures.


class dsStruct64_t(Structure):
    _fields_ = (
        ("hi", dsUint32_t),
        ("lo", dsUint32_t),
    )


ObjID = dsStruct64_t


class dsUint160_t(Structure):
    _fields_ = (
        ("top", dsUint32_t),
        ("hi_hi", dsUint32_t),
        ("hi_lo", dsUint32_t),
        ("lo_hi", dsUint32_t),
        ("lo_lo", dsUint32_t),
    )


class dsmDate(Structure):
    _fields_ = (
        ("year", dsUint16_t),
        ("month", dsUint8_t),
        ("day", dsUint8_t),
        ("hour", dsUint8_t),
        ("minute", dsUint8_t),
        ("second", dsUint8_t),
    )


# Session and environment.


class dsmApiVersion(Structure):
    _fields_ = (
        ("version", dsUint16_t),
        ("release", dsUint16_t),
        ("level", dsUint16_t),
    )


class dsmApiVersionEx(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("version", dsUint16_t),
        ("release", dsUint16_t),
        ("level", dsUint16_t),
        ("subLevel", dsUint16_t),
        ("unicode", dsmBool_t),
    )


class dsmAppVersion(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("applicationVersion", dsUint16_t),
        ("applicationRelease", dsUint16_t),
        ("applicationLevel", dsUint16_t),
        ("applicationSubLevel", dsUint16_t),
    )


class envSetUp(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("dsmiDir", c_char * (DSM_PATH_MAX + DSM_NAME_MAX + 1)),
        ("dsmiConfig", c_char * (DSM_PATH_MAX + DSM_NAME_MAX + 1)),
        ("dsmiLog", c_char * (DSM_PATH_MAX + DSM_NAME_MAX + 1)),
        ("argv", POINTER(c_char_p)),
        ("logName", c_char * (DSM_NAME_MAX + 1)),
        ("reserved1", dsmBool_t),
        ("reserved2", dsmBool_t),
    )


class dsmInitExIn_t(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("apiVersionExP", POINTER(dsmApiVersionEx)),
        ("clientNodeNameP", c_char_p),
        ("clientOwnerNameP", c_char_p),
        ("clientPasswordP", c_char_p),
        ("userNameP", c_char_p),
        ("userPasswordP", c_char_p),
        ("applicationTypeP", c_char_p),
        ("configfile", c_char_p),
        ("options", c_char_p),
        ("dirDelimiter", c_char),
        ("useUnicode", dsmBool_t),
        ("bCrossPlatform", dsmBool_t),
        ("bService", dsmBool_t),
        ("bEncryptKeyEnabled", dsmBool_t),
        ("encryptionPasswordP", c_char_p),
        ("useTsmBuffers", dsmBool_t),
        ("numTsmBuffers", dsUint8_t),
        ("appVersionP", POINTER(dsmAppVersion)),
    )


class dsmInitExOut_t(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("userNameAuthorities", dsInt16_t),
        ("infoRC", dsInt16_t),
        ("adsmServerName", c_char * (DSM_MAX_SERVERNAME_LENGTH + 1)),
        ("serverVer", dsUint16_t),
        ("serverRel", dsUint16_t),
        ("serverLev", dsUint16_t),
        ("serverSubLev", dsUint16_t),
        ("bIsFailOverMode", dsmBool_t),
        ("replServerName", c_char * (DSM_MAX_SERVERNAME_LENGTH + 1)),
        ("homeServerName", c_char * (DSM_MAX_SERVERNAME_LENGTH + 1)),
    )


class ApiSessInfo(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("serverHost", c_char * (DSM_MAX_SERVERNAME_LENGTH + 1)),
        ("serverPort", dsUint16_t),
        ("serverDate", dsmDate),
        ("serverType", c_char * (DSM_MAX_SERVERTYPE_LENGTH + 1)),
        ("serverVer", dsUint16_t),
        ("serverRel", dsUint16_t),
        ("serverLev", dsUint16_t),
        ("serverSubLev", dsUint16_t),
        ("nodeType", c_char * (DSM_MAX_PLATFORM_LENGTH + 1)),
        ("fsdelim", c_char),
        ("hldelim", c_char),
        ("compression", dsUint8_t),
        ("archDel", dsUint8_t),
        ("backDel", dsUint8_t),
        ("maxBytesPerTxn", dsUint32_t),
        ("maxObjPerTxn", dsUint16_t),
        ("id", c_char * (DSM_MAX_ID_LENGTH + 1)),
        ("owner", c_char * (DSM_MAX_OWNER_LENGTH + 1)),
        ("confFile", c_char * (DSM_PATH_MAX + DSM_NAME_MAX + 1)),
        ("opNoTrace", dsUint8_t),
        ("domainName", c_char * (DSM_MAX_DOMAIN_LENGTH + 1)),
        ("policySetName", c_char * (DSM_MAX_PS_NAME_LENGTH + 1)),
        ("polActDate", dsmDate),
        ("dfltMCName", c_char * (DSM_MAX_MC_NAME_LENGTH + 1)),
        ("gpBackRetn", dsUint16_t),
        ("gpArchRetn", dsUint16_t),
        ("adsmServerName", c_char * (DSM_MAX_SERVERNAME_LENGTH + 1)),
        ("archiveRetentionProtection", dsmBool_t),
        ("maxBytesPerTxn_64", dsStruct64_t),
        ("lanFreeEnabled", dsmBool_t),
        ("dedupType", dsmDedupType),
        ("accessNode", c_char * (DSM_MAX_NODE_LENGTH + 1)),
        ("failOverCfgType", dsmFailOvrCfgType),
        ("replServerName", c_char * (DSM_MAX_SERVERNAME_LENGTH + 1)),
        ("homeServerName", c_char * (DSM_MAX_SERVERNAME_LENGTH + 1)),
        ("replServerHost", c_char * (DSM_MAX_SERVERNAME_LENGTH + 1)),
        ("replServerPort", dsInt32_t),
    )


class optStruct(Structure):
    _fields_ = (
        ("dsmiDir", c_char * (DSM_PATH_MAX + DSM_NAME_MAX + 1)),
        ("dsmiConfig", c_char * (DSM_PATH_MAX + DSM_NAME_MAX + 1)),
        ("serverName", c_char * (DSM_MAX_SERVERNAME_LENGTH + 1)),
        ("commMethod", dsInt16_t),
        ("serverAddress", c_char * DSM_MAX_SERVER_ADDRESS),
        ("nodeName", c_char * (DSM_MAX_NODE_LENGTH + 1)),
        ("compression", dsmBool_t),
        ("compressalways", dsmBool_t),
        ("passwordAccess", dsmBool_t),
    )


# Names, attributes, data.


class dsmObjName(Structure):
    _fields_ = (
        ("fs", c_char * (DSM_MAX_FSNAME_LENGTH + 1)),
        ("hl", c_char * (DSM_MAX_HL_LENGTH + 1)),
        ("ll", c_char * (DSM_MAX_LL_LENGTH + 1)),
        ("objType", dsUint8_t),
    )


class ObjAttr(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("owner", c_char * (DSM_MAX_OWNER_LENGTH + 1)),
        ("sizeEstimate", dsStruct64_t),
        ("objCompressed", dsmBool_t),
        ("objInfoLength", dsUint16_t),
        ("objInfo", c_void_p),
        ("mcNameP", c_char_p),
        ("disableDeduplication", dsmBool_t),
        ("useExtObjInfo", dsmBool_t),
    )


class DataBlk(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("bufferLen", dsUint32_t),
        ("numBytes", dsUint32_t),
        ("bufferPtr", c_void_p),
        ("numBytesCompressed", dsUint32_t),
        ("reserved", dsUint16_t),
    )


class sndArchiveData(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("descr", c_char_p),
    )


class mcBindKey(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("mcName", c_char * (DSM_MAX_MC_NAME_LENGTH + 1)),
        ("backup_cg_exists", dsmBool_t),
        ("archive_cg_exists", dsmBool_t),
        ("backup_copy_dest", c_char * (DSM_MAX_CG_DEST_LENGTH + 1)),
        ("archive_copy_dest", c_char * (DSM_MAX_CG_DEST_LENGTH + 1)),
    )


# Input and output of the ...Ex functions that end something.


class dsmEndSendObjExIn_t(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("dsmHandle", dsUint32_t),
    )


class dsmEndSendObjExOut_t(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("totalBytesSent", dsStruct64_t),
        ("objCompressed", dsmBool_t),
        ("totalCompressSize", dsStruct64_t),
        ("totalLFBytesSent", dsStruct64_t),
        ("encryptionType", dsUint8_t),
        ("objDeduplicated", dsmBool_t),
        ("totalDedupSize", dsStruct64_t),
    )


class dsmEndTxnExIn_t(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("dsmHandle", dsUint32_t),
        ("vote", dsUint8_t),
    )


class dsmEndTxnExOut_t(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("reason", dsUint16_t),
        ("groupLeaderObjId", ObjID),
        ("reserved1", dsUint8_t),
        ("reserved2", dsUint16_t),
    )


class dsmEndGetDataExIn_t(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("dsmHandle", dsUint32_t),
    )


class dsmEndGetDataExOut_t(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("reason", dsUint16_t),
        ("totalLFBytesRecv", dsStruct64_t),
    )


# Get lists.


class PartialObjData(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("partialObjOffset", dsStruct64_t),
        ("partialObjLength", dsStruct64_t),
    )


class dsmGetList(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("numObjId", dsUint32_t),
        ("objId", POINTER(ObjID)),
        ("partialObjData", POINTER(PartialObjData)),
    )


# File spaces.


class dsmUnixFSAttrib(Structure):
    _fields_ = (
        ("fsInfoLength", dsUint16_t),
        ("fsInfo", c_char * DSM_MAX_FSINFO_LENGTH),
    )


class dsmDosFSAttrib(Structure):
    _fields_ = (
        ("driveLetter", c_char),
        ("fsInfoLength", dsUint16_t),
        ("fsInfo", c_char * DSM_MAX_FSINFO_LENGTH),
    )


class dsmFSAttr(Union):
    _fields_ = (
        ("netwareFSAttr", dsmUnixFSAttrib),
        ("unixFSAttr", dsmUnixFSAttrib),
        ("dosFSAttr", dsmDosFSAttrib),
    )


class regFSData(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("fsName", c_char_p),
        ("fsType", c_char_p),
        ("occupancy", dsStruct64_t),
        ("capacity", dsStruct64_t),
        ("fsAttr", dsmFSAttr),
    )


class dsmFSUpd(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("fsType", c_char_p),
        ("occupancy", dsStruct64_t),
        ("capacity", dsStruct64_t),
        ("fsAttr", dsmFSAttr),
    )


# Queries: what the caller asks.


class qryArchiveData(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("objName", POINTER(dsmObjName)),
        ("owner", c_char_p),
        ("insDateLowerBound", dsmDate),
        ("insDateUpperBound", dsmDate),
        ("expDateLowerBound", dsmDate),
        ("expDateUpperBound", dsmDate),
        ("descr", c_char_p),
    )


class qryMCData(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("mcName", c_char_p),
        ("mcDetail", dsmBool_t),
    )


class qryFSData(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("fsName", c_char_p),
    )


class qryBackupData(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("objName", POINTER(dsmObjName)),
        ("owner", c_char_p),
        ("objState", dsUint8_t),
        ("pitDate", dsmDate),
    )


class qryABackupData(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("objName", POINTER(dsmObjName)),
    )


class qryBackupGroups(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("groupType", dsUint8_t),
        ("fsName", c_char_p),
        ("owner", c_char_p),
        ("groupLeaderObjId", ObjID),
        ("objType", dsUint8_t),
        ("noRestoreOrder", dsmBool_t),
        ("noGroupInfo", dsmBool_t),
        ("hl", c_char_p),
    )


class qryProxyNodeData(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("targetNodeName", c_char_p),
    )


# Queries: what dsmGetNextQObj fills.


class qryRespArchiveData(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("objName", dsmObjName),
        ("copyGroup", dsUint32_t),
        ("mcName", c_char * (DSM_MAX_MC_NAME_LENGTH + 1)),
        ("owner", c_char * (DSM_MAX_OWNER_LENGTH + 1)),
        ("objId", ObjID),
        ("reserved", dsStruct64_t),
        ("mediaClass", dsUint8_t),
        ("insDate", dsmDate),
        ("expDate", dsmDate),
        ("descr", c_char * (DSM_MAX_DESCR_LENGTH + 1)),
        ("objInfolen", dsUint16_t),
        ("reservedObjInfo", c_ubyte * DSM_MAX_OBJINFO_LENGTH),
        ("restoreOrderExt", dsUint160_t),
        ("sizeEstimate", dsStruct64_t),
        ("compressType", dsUint8_t),
        ("retentionInitiated", dsUint8_t),
        ("objHeld", dsUint8_t),
        ("encryptionType", dsUint8_t),
        ("clientDeduplicated", dsmBool_t),
        ("objInfo", c_ubyte * DSM_MAX_EXT_OBJINFO_LENGTH),
        ("compressAlg", c_char * (DSM_MAX_COMPRESSTYPE_LENGTH + 1)),
    )


class archDetailCG(Structure):
    _fields_ = (
        ("cgName", c_char * (DSM_MAX_CG_NAME_LENGTH + 1)),
        ("frequency", dsUint16_t),
        ("retainVers", dsUint16_t),
        ("copySer", dsUint8_t),
        ("copyMode", dsUint8_t),
        ("destName", c_char * (DSM_MAX_CG_DEST_LENGTH + 1)),
        ("bLanFreeDest", dsmBool_t),
        ("reserved", dsmBool_t),
        ("retainInit", dsUint8_t),
        ("retainMin", dsUint16_t),
        ("bDeduplicate", dsmBool_t),
    )


class backupDetailCG(Structure):
    _fields_ = (
        ("cgName", c_char * (DSM_MAX_CG_NAME_LENGTH + 1)),
        ("frequency", dsUint16_t),
        ("verDataExst", dsUint16_t),
        ("verDataDltd", dsUint16_t),
        ("retXtraVers", dsUint16_t),
        ("retOnlyVers", dsUint16_t),
        ("copySer", dsUint8_t),
        ("copyMode", dsUint8_t),
        ("destName", c_char * (DSM_MAX_CG_DEST_LENGTH + 1)),
        ("bLanFreeDest", dsmBool_t),
        ("reserved", dsmBool_t),
        ("bDeduplicate", dsmBool_t),
    )


class qryRespMCData(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("mcName", c_char * (DSM_MAX_MC_NAME_LENGTH + 1)),
        ("mcDesc", c_char * (DSM_MAX_MC_DESCR_LENGTH + 1)),
    )


class qryRespMCDetailData(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("mcName", c_char * (DSM_MAX_MC_NAME_LENGTH + 1)),
        ("mcDesc", c_char * (DSM_MAX_MC_DESCR_LENGTH + 1)),
        ("archDet", archDetailCG),
        ("backupDet", backupDetailCG),
    )


class qryRespFSData(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("fsName", c_char * (DSM_MAX_FSNAME_LENGTH + 1)),
        ("fsType", c_char * (DSM_MAX_FSTYPE_LENGTH + 1)),
        ("occupancy", dsStruct64_t),
        ("capacity", dsStruct64_t),
        ("fsAttr", dsmFSAttr),
        ("backStartDate", dsmDate),
        ("backCompleteDate", dsmDate),
        ("reserved1", dsmDate),
        ("lastReplStartDate", dsmDate),
        ("lastReplCmpltDate", dsmDate),
        ("lastBackOpDateFromServer", dsmDate),
        ("lastArchOpDateFromServer", dsmDate),
        ("lastSpMgOpDateFromServer", dsmDate),
        ("lastBackOpDateFromLocal", dsmDate),
        ("lastArchOpDateFromLocal", dsmDate),
        ("lastSpMgOpDateFromLocal", dsmDate),
        ("failOverWriteDelay", dsInt32_t),
    )


class qryRespAccessData(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("node", c_char * (DSM_MAX_NODE_LENGTH + 1)),
        ("owner", c_char * (DSM_MAX_OWNER_LENGTH + 1)),
        ("objName", dsmObjName),
        ("accessType", dsmAccessType),
        ("ruleNumber", dsUint32_t),
    )


class reservedInfo_t(Structure):
    _fields_ = (
        ("reserved1", dsUint8_t),
        ("reserved2", dsStruct64_t),
    )


class qryRespBackupData(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("objName", dsmObjName),
        ("copyGroup", dsUint32_t),
        ("mcName", c_char * (DSM_MAX_MC_NAME_LENGTH + 1)),
        ("owner", c_char * (DSM_MAX_OWNER_LENGTH + 1)),
        ("objId", ObjID),
        ("reserved", dsStruct64_t),
        ("mediaClass", dsUint8_t),
        ("objState", dsUint8_t),
        ("insDate", dsmDate),
        ("expDate", dsmDate),
        ("objInfolen", dsUint16_t),
        ("reservedObjInfo", c_ubyte * DSM_MAX_OBJINFO_LENGTH),
        ("restoreOrderExt", dsUint160_t),
        ("sizeEstimate", dsStruct64_t),
        ("baseObjId", ObjID),
        ("baseObjInfolen", dsUint16_t),
        ("baseObjInfo", c_ubyte * DSM_MAX_OBJINFO_LENGTH),
        ("baseRestoreOrder", dsUint160_t),
        ("fsID", dsUint32_t),
        ("compressType", dsUint8_t),
        ("isGroupLeader", dsmBool_t),
        ("isOpenGroup", dsmBool_t),
        ("reserved1", dsUint8_t),
        ("reserved2", dsmBool_t),
        ("reserved3", dsUint16_t),
        ("reserved4", POINTER(reservedInfo_t)),
        ("encryptionType", dsUint8_t),
        ("clientDeduplicated", dsmBool_t),
        ("objInfo", c_ubyte * DSM_MAX_EXT_OBJINFO_LENGTH),
        ("compressAlg", c_char * (DSM_MAX_COMPRESSTYPE_LENGTH + 1)),
    )


class qryARespBackupData(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("objName", dsmObjName),
        ("copyGroup", dsUint32_t),
        ("mcName", c_char * (DSM_MAX_MC_NAME_LENGTH + 1)),
        ("owner", c_char * (DSM_MAX_OWNER_LENGTH + 1)),
        ("insDate", dsmDate),
        ("objInfolen", dsUint16_t),
        ("reservedObjInfo", c_ubyte * DSM_MAX_OBJINFO_LENGTH),
        ("objInfo", c_ubyte * DSM_MAX_EXT_OBJINFO_LENGTH),
    )


class qryRespProxyNodeData(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("targetNodeName", c_char * (DSM_MAX_NODE_LENGTH + 1)),
        ("peerNodeName", c_char * (DSM_MAX_NODE_LENGTH + 1)),
        ("hlAddress", c_char * (DSM_MAX_NODE_LENGTH + 1)),
        ("llAddress", c_char * (DSM_MAX_NODE_LENGTH + 1)),
    )


# Deleting and retention.


class delBack(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("objNameP", POINTER(dsmObjName)),
        ("copyGroup", dsUint32_t),
    )


class delArch(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("objId", ObjID),
    )


class delBackID(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("objId", ObjID),
    )


class dsmDelInfo(Union):
    _fields_ = (
        ("backInfo", delBack),
        ("archInfo", delArch),
        ("backIDInfo", delBackID),
    )


class dsmObjList_t(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("numObjId", dsUint32_t),
        ("objId", POINTER(ObjID)),
    )


class dsmRetentionEventIn_t(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("dsmHandle", dsUint32_t),
        ("eventType", dsmEventType_t),
        ("objList", dsmObjList_t),
    )


class dsmRetentionEventOut_t(Structure):
    _fields_ = (("stVersion", dsUint16_t),)


# Updating, renaming, logging.


class dsmUpdateObjExIn_t(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("dsmHandle", dsUint32_t),
        ("sendType", dsmSendType),
        ("descrP", c_char_p),
        ("objNameP", POINTER(dsmObjName)),
        ("objAttrPtr", POINTER(ObjAttr)),
        ("objUpdAct", dsUint32_t),
        ("archObjId", ObjID),
    )


class dsmUpdateObjExOut_t(Structure):
    _fields_ = (("stVersion", dsUint16_t),)


class dsmRenameIn_t(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("dsmHandle", dsUint32_t),
        ("repository", dsUint8_t),
        ("objNameP", POINTER(dsmObjName)),
        ("newHl", c_char * (DSM_MAX_HL_LENGTH + 1)),
        ("newLl", c_char * (DSM_MAX_LL_LENGTH + 1)),
        ("merge", dsmBool_t),
        ("objId", ObjID),
    )


class dsmRenameOut_t(Structure):
    _fields_ = (("stVersion", dsUint16_t),)


class logInfo(Structure):
    _fields_ = (
        ("message", c_char_p),
        ("logType", dsmLogType),
    )


class dsmLogExIn_t(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("severity", dsmLogSeverity),
        ("appMsgID", c_char * 8),
        ("logType", dsmLogType),
        ("message", c_char_p),
        ("appName", c_char * 16),
        ("osPlatform", c_char * 16),
        ("appVersion", c_char * 16),
    )


class dsmLogExOut_t(Structure):
    _fields_ = (("stVersion", dsUint16_t),)


# Groups of backup objects.


class dsmGroupHandlerIn_t(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("dsmHandle", dsUint32_t),
        ("groupType", dsUint8_t),
        ("actionType", dsUint8_t),
        ("memberType", dsUint8_t),
        ("leaderObjId", ObjID),
        ("uniqueGroupTagP", c_char_p),
        ("objNameP", POINTER(dsmObjName)),
        ("memberObjList", dsmGetList),
    )


class dsmGroupHandlerOut_t(Structure):
    _fields_ = (("stVersion", dsUint16_t),)


# Library buffers.


class requestBufferIn_t(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("dsmHandle", dsUint32_t),
    )


class requestBufferOut_t(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("tsmBufferHandle", dsUint8_t),
        ("dataPtr", c_void_p),
        ("bufferLen", dsUint32_t),
    )


class releaseBufferIn_t(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("dsmHandle", dsUint32_t),
        ("tsmBufferHandle", dsUint8_t),
        ("dataPtr", c_void_p),
    )


class releaseBufferOut_t(Structure):
    _fields_ = (("stVersion", dsUint16_t),)


class getBufferDataIn_t(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("dsmHandle", dsUint32_t),
    )


class getBufferDataOut_t(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("tsmBufferHandle", dsUint8_t),
        ("dataPtr", c_void_p),
        ("numBytes", dsUint32_t),
    )


class sendBufferDataIn_t(Structure):
    _fields_ = (
        ("stVersion", dsUint16_t),
        ("dsmHandle", dsUint32_t),
        ("tsmBufferHandle", dsUint8_t),
        ("dataPtr", c_void_p),
        ("numBytes", dsUint32_t),
    )


class sendBufferDataOut_t(Structure):
    _fields_ = (("stVersion", dsUint16_t),)


# Prototypes: name -> (type of the result, types of the arguments).

Prototype = tuple[type[Any] | None, tuple[type[Any], ...]]

handle = dsUint32_t

PROTOTYPES: dict[str, Prototype] = {
    "dsmQueryApiVersion": (None, (POINTER(dsmApiVersion),)),
    "dsmQueryApiVersionEx": (None, (POINTER(dsmApiVersionEx),)),
    "dsmSetUp": (dsInt16_t, (dsmBool_t, POINTER(envSetUp))),
    "dsmQueryCliOptions": (dsInt16_t, (POINTER(optStruct),)),
    "dsmInit": (
        dsInt16_t,
        (POINTER(dsUint32_t), POINTER(dsmApiVersion), c_char_p, c_char_p, c_char_p, c_char_p, c_char_p, c_char_p),
    ),
    "dsmInitEx": (dsInt16_t, (POINTER(dsUint32_t), POINTER(dsmInitExIn_t), POINTER(dsmInitExOut_t))),
    "dsmTerminate": (dsInt16_t, (handle,)),
    "dsmCleanUp": (dsInt16_t, (dsmBool_t,)),
    "dsmRCMsg": (dsInt16_t, (handle, dsInt16_t, c_char_p)),
    "dsmQuerySessInfo": (dsInt16_t, (handle, POINTER(ApiSessInfo))),
    "dsmQuerySessOptions": (dsInt16_t, (handle, POINTER(optStruct))),
    "dsmChangePW": (dsInt16_t, (handle, c_char_p, c_char_p)),
    "dsmLogEvent": (dsInt16_t, (handle, POINTER(logInfo))),
    "dsmLogEventEx": (dsInt16_t, (handle, POINTER(dsmLogExIn_t), POINTER(dsmLogExOut_t))),
    "dsmRegisterFS": (dsInt16_t, (handle, POINTER(regFSData))),
    "dsmUpdateFS": (dsInt16_t, (handle, c_char_p, POINTER(dsmFSUpd), dsUint32_t)),
    "dsmDeleteFS": (dsInt16_t, (handle, c_char_p, dsUint8_t)),
    "dsmBeginTxn": (dsInt16_t, (handle,)),
    "dsmEndTxn": (dsInt16_t, (handle, dsUint8_t, POINTER(dsUint16_t))),
    "dsmEndTxnEx": (dsInt16_t, (POINTER(dsmEndTxnExIn_t), POINTER(dsmEndTxnExOut_t))),
    "dsmBindMC": (dsInt16_t, (handle, POINTER(dsmObjName), dsmSendType, POINTER(mcBindKey))),
    "dsmSendObj": (dsInt16_t, (handle, dsmSendType, c_void_p, POINTER(dsmObjName), POINTER(ObjAttr), POINTER(DataBlk))),
    "dsmSendData": (dsInt16_t, (handle, POINTER(DataBlk))),
    "dsmEndSendObj": (dsInt16_t, (handle,)),
    "dsmEndSendObjEx": (dsInt16_t, (POINTER(dsmEndSendObjExIn_t), POINTER(dsmEndSendObjExOut_t))),
    "dsmDeleteObj": (dsInt16_t, (handle, dsmDelType, dsmDelInfo)),
    "dsmRetentionEvent": (dsInt16_t, (POINTER(dsmRetentionEventIn_t), POINTER(dsmRetentionEventOut_t))),
    "dsmUpdateObj": (dsInt16_t, (handle, dsmSendType, c_void_p, POINTER(dsmObjName), POINTER(ObjAttr), dsUint32_t)),
    "dsmUpdateObjEx": (dsInt16_t, (POINTER(dsmUpdateObjExIn_t), POINTER(dsmUpdateObjExOut_t))),
    "dsmRenameObj": (dsInt16_t, (POINTER(dsmRenameIn_t), POINTER(dsmRenameOut_t))),
    "dsmGroupHandler": (dsInt16_t, (POINTER(dsmGroupHandlerIn_t), POINTER(dsmGroupHandlerOut_t))),
    "dsmBeginQuery": (dsInt16_t, (handle, dsmQueryType, c_void_p)),
    "dsmGetNextQObj": (dsInt16_t, (handle, POINTER(DataBlk))),
    "dsmEndQuery": (dsInt16_t, (handle,)),
    "dsmBeginGetData": (dsInt16_t, (handle, dsmBool_t, dsmGetType, POINTER(dsmGetList))),
    "dsmGetObj": (dsInt16_t, (handle, POINTER(ObjID), POINTER(DataBlk))),
    "dsmGetData": (dsInt16_t, (handle, POINTER(DataBlk))),
    "dsmEndGetObj": (dsInt16_t, (handle,)),
    "dsmEndGetData": (dsInt16_t, (handle,)),
    "dsmEndGetDataEx": (dsInt16_t, (POINTER(dsmEndGetDataExIn_t), POINTER(dsmEndGetDataExOut_t))),
    "dsmQueryAccess": (dsInt16_t, (handle, POINTER(POINTER(qryRespAccessData)), POINTER(dsUint16_t))),
    "dsmSetAccess": (dsInt16_t, (handle, dsmAccessType, POINTER(dsmObjName), c_char_p, c_char_p)),
    "dsmDeleteAccess": (dsInt16_t, (handle, dsUint32_t)),
    "dsmRequestBuffer": (dsInt16_t, (POINTER(requestBufferIn_t), POINTER(requestBufferOut_t))),
    "dsmReleaseBuffer": (dsInt16_t, (POINTER(releaseBufferIn_t), POINTER(releaseBufferOut_t))),
    "dsmGetBufferData": (dsInt16_t, (POINTER(getBufferDataIn_t), POINTER(getBufferDataOut_t))),
    "dsmSendBufferData": (dsInt16_t, (POINTER(sendBufferDataIn_t), POINTER(sendBufferDataOut_t))),
}
