/* The client API of IBM Storage Protect (TSM) as a C interface: types, constants, structures, functions.
 *
 * One idea: a library with these 47 functions and layouts can serve a program that was written for the vendor's
 * library, and a program written against this file can use the vendor's library. Level 8.2.1, x86-64 Linux, natural
 * alignment.
 *
 * These rules always apply:
 *
 * - Every function except the two version queries returns a code of archiver_tsm_rc.h; DSM_RC_OK is 0.
 * - A structure that begins with stVersion needs that number from the caller first, output structures too. It states
 *   the size of the caller's structure; the library neither reads nor writes beyond it. Lower numbers mean older,
 *   smaller structures, and a number higher than the one given here is DSM_RC_WRONG_VERSION_PARM.
 * - Memory belongs to the caller; the library uses it only during the call. Strings are bytes with a NUL at the end.
 * - A 64-bit number is two 32-bit halves, the high one first, unlike a 64-bit number of a little-endian machine.
 * - A handle is one session. Different handles may be used by different threads at once, one handle by one at a time.
 */
#ifndef ARCHIVER_TSM_H
#define ARCHIVER_TSM_H

#include "archiver_tsm_rc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The calling convention: C's own */
#define DSMLINKAGE

#define COMMON_VERSION 8
#define COMMON_RELEASE 2
#define COMMON_LEVEL 1
#define COMMON_SUBLEVEL 0
#define DSM_API_VERSION COMMON_VERSION
#define DSM_API_RELEASE COMMON_RELEASE
#define DSM_API_LEVEL COMMON_LEVEL
#define DSM_API_SUBLEVEL COMMON_SUBLEVEL

/* Results of comparing two dsStruct64_t */
#define DS_EQUAL 0
#define DS_GREATERTHAN 1
#define DS_LESSTHAN -1

/* Base types */

typedef char dsInt8_t;
typedef unsigned char dsUint8_t;
typedef short dsInt16_t;
typedef unsigned short dsUint16_t;
typedef int dsInt32_t;
typedef unsigned int dsUint32_t;
typedef long dsInt64_t;
typedef unsigned long dsUint64_t;
typedef long dsLong_t;
typedef unsigned long dsUlong_t;
typedef char dsChar_t;
typedef char osChar_t;
typedef char dsmBytes; /* any bytes, NULs too: not a string */
typedef void dsmQueryBuff;

/* Four bytes wide, as every enumeration here. */
typedef enum dsmBool_t { dsmFalse = 0, dsmTrue = 1 } dsmBool_t;
typedef dsmBool_t dsBool_t;
typedef dsmBool_t bool_t;
#define bFalse dsmFalse
#define bTrue dsmTrue

typedef struct dsStruct64_t {
    dsUint32_t hi;
    dsUint32_t lo;
} dsStruct64_t;

typedef dsStruct64_t ObjID;

/* The order in which a server can return objects fastest: compare the fields in this sequence. */
typedef struct dsUint160_t {
    dsUint32_t top; /* not 0: a serial device, which two sessions cannot read at once */
    dsUint32_t hi_hi;
    dsUint32_t hi_lo;
    dsUint32_t lo_hi;
    dsUint32_t lo_lo;
} dsUint160_t;

/* In the server's local time. */
typedef struct dsmDate {
    dsUint16_t year; /* or DATE_MINUS_INFINITE, DATE_PLUS_INFINITE */
    dsUint8_t month; /* 1 to 12 */
    dsUint8_t day;   /* 1 to 31 */
    dsUint8_t hour;
    dsUint8_t minute;
    dsUint8_t second;
} dsmDate;

#define DATE_MINUS_INFINITE 0x0000
#define DATE_PLUS_INFINITE 0xFFFF

/* Lengths, without the NUL */

#define DSM_MAX_FSNAME_LENGTH 1024
#define DSM_MAX_HL_LENGTH 1024
#define DSM_MAX_LL_LENGTH 256
#define DSM_MAX_DESCR_LENGTH 255
#define DSM_MAX_MC_DESCR_LENGTH 255
#define DSM_MAX_OBJINFO_LENGTH 255
#define DSM_MAX_EXT_OBJINFO_LENGTH 1500
#define DSM_MAX_ID_LENGTH 64
#define DSM_MAX_NODE_LENGTH 64
#define DSM_MAX_OWNER_LENGTH 64
#define DSM_MAX_SERVERNAME_LENGTH 64
#define DSM_MAX_VERIFIER_LENGTH 64 /* password */
#define DSM_MAX_MC_NAME_LENGTH 30
#define DSM_MAX_CG_NAME_LENGTH 30
#define DSM_MAX_CG_DEST_LENGTH 30
#define DSM_MAX_DOMAIN_LENGTH 30
#define DSM_MAX_PS_NAME_LENGTH 30
#define DSM_MAX_PLATFORM_LENGTH 16
#define DSM_MAX_SERVERTYPE_LENGTH 32
#define DSM_MAX_FSTYPE_LENGTH 32
#define DSM_MAX_COMPRESSTYPE_LENGTH 32
#define DSM_MAX_FSINFO_LENGTH 500 /* of the array, of which callers may use the next */
#define DSM_MAX_USER_FSINFO_LENGTH 480
#define DSM_MAX_SERVER_ADDRESS 1024 /* with the NUL */
#define DSM_MAX_RC_MSG_LENGTH 1024
#define DSM_PATH_MAX 1024
#define DSM_NAME_MAX 255
#define DSM_MIN_COMPRESS_SIZE 2048

/* Ids in one dsmGetList: whole objects, parts of objects */
#define DSM_MAX_GET_OBJ 4080
#define DSM_MAX_PARTIAL_GET_OBJ 1300

/* Enumerations */

typedef enum dsmSendType {
    stBackup = 0,
    stArchive = 1,
    stBackupMountWait = 2,
    stArchiveMountWait = 3 /* wait for a volume instead of failing */
} dsmSendType;

typedef enum dsmQueryType {
    qtArchive = 0,
    qtBackup = 1,
    qtBackupActive = 2,
    qtFilespace = 3,
    qtMC = 4,
    qtReserved1 = 5,
    qtReserved2 = 6,
    qtReserved3 = 7,
    qtReserved4 = 8,
    qtBackupGroups = 9,
    qtOpenGroups = 10,
    qtReserved5 = 11,
    qtProxyNodeAuth = 12,
    qtProxyNodePeer = 13,
    qtReserved6 = 14,
    qtReserved7 = 15,
    qtReserved8 = 16
} dsmQueryType;

typedef enum dsmGetType { gtBackup = 0, gtArchive = 1 } dsmGetType;

typedef enum dsmDelType { dtArchive = 0, dtBackup = 1, dtBackupID = 2 } dsmDelType;

typedef enum dsmAccessType { atBackup = 0, atArchive = 1 } dsmAccessType;

typedef enum dsmEventType_t { eventRetentionActivate = 0, eventHoldObj = 1, eventReleaseObj = 2 } dsmEventType_t;

typedef enum dsmLogType { logServer = 0, logLocal = 1, logBoth = 2, logNone = 3 } dsmLogType;

typedef enum dsmLogSeverity {
    logSevInfo = 0,
    logSevWarning = 1,
    logSevError = 2,
    logSevSevere = 3,
    logSevLicense = 4,
    logSevTryBuy = 5
} dsmLogSeverity;

typedef enum dsmDedupType { dedupServerOnly = 0, dedupClientOrServer = 1 } dsmDedupType;

typedef enum dsmFailOvrCfgType {
    failOvrNotConfigured = 0,
    failOvrConfigured = 1,
    failOvrConnectedToReplServer = 2
} dsmFailOvrCfgType;

/* Values that are no enumerations */

#define DSM_SINGLETHREAD bFalse
#define DSM_MULTITHREAD bTrue

#define DSM_OBJ_FILE 0x01
#define DSM_OBJ_DIRECTORY 0x02
#define DSM_OBJ_RESERVED1 0x04
#define DSM_OBJ_RESERVED2 0x05
#define DSM_OBJ_RESERVED3 0x06
#define DSM_OBJ_WILDCARD 0xFE
#define DSM_OBJ_ANY_TYPE 0xFF

#define DSM_VOTE_COMMIT 1
#define DSM_VOTE_ABORT 2

#define DSM_REPOS_ALL 0x01
#define DSM_ARCHIVE_REP 0x0A
#define DSM_BACKUP_REP 0x0B

#define ARCH_RETINIT_CREATE 0
#define ARCH_RETINIT_EVENT 1

#define DSM_ARCH_RETINIT_UNKNOWN 0
#define DSM_ARCH_RETINIT_STARTED 1
#define DSM_ARCH_RETINIT_PENDING 2

#define DSM_ARCH_HELD_UNKNOWN 0
#define DSM_ARCH_HELD_FALSE 1
#define DSM_ARCH_HELD_TRUE 2

#define DSM_OBJ_COMPRESSED_UNKNOWN 0
#define DSM_OBJ_COMPRESSED_YES 1
#define DSM_OBJ_COMPRESSED_NO 2

#define COMPRESS_YES 1
#define COMPRESS_NO 2
#define COMPRESS_CD 3 /* the client decides */
#define ARCHDEL_YES 1
#define ARCHDEL_NO 2
#define BACKDEL_YES 1
#define BACKDEL_NO 2

#define Copy_Serial_Static 1
#define Copy_Serial_Shared_Static 2
#define Copy_Serial_Shared_Dynamic 3
#define Copy_Serial_Dynamic 4
#define Copy_Mode_Modified 1
#define Copy_Mode_Absolute 2

#define DSM_ACTIVE 0x01
#define DSM_INACTIVE 0x02
#define DSM_ANY_MATCH 0xFF

#define DSM_FSUPD_FSTYPE 0x00000002
#define DSM_FSUPD_FSINFO 0x00000004
#define DSM_FSUPD_BACKSTARTDATE 0x00000008
#define DSM_FSUPD_BACKCOMPLETEDATE 0x00000010
#define DSM_FSUPD_OCCUPANCY 0x00000020
#define DSM_FSUPD_CAPACITY 0x00000040
#define DSM_FSUPD_RESERVED1 0x00000100

#define DSM_ARCHUPD_OWNER 0x00000001
#define DSM_ARCHUPD_OBJINFO 0x00000002
#define DSM_ARCHUPD_DESCR 0x00000004
#define DSM_BACKUPD_OWNER 0x00000001
#define DSM_BACKUPD_OBJINFO 0x00000002
#define DSM_BACKUPD_MC 0x00000004

#define MEDIA_FIXED 0x10
#define MEDIA_LIBRARY 0x20
#define MEDIA_NETWORK 0x30
#define MEDIA_SHELF 0x40
#define MEDIA_OFFSITE 0x50
#define MEDIA_UNAVAILABLE 0xF0

#define DSM_COMM_TCP 1
#define DSM_COMM_NAMEDPIPE 2
#define DSM_COMM_SHM 3
/* Methods that no longer exist */
#define DSM_COMM_PVM_IUCV 12
#define DSM_COMM_3270 12
#define DSM_COMM_IUCV 12
#define DSM_COMM_PWSCS 12
#define DSM_COMM_SNA_LU6_2 12
#define DSM_COMM_IPXSPX 12
#define DSM_COMM_NETBIOS 12
#define DSM_COMM_400COMM 12
#define DSM_COMM_CLIO 12

#define DSM_PASSWD_PROMPT 0
#define DSM_PASSWD_GENERATE 1

#define DSM_ENCRYPT_NO 0x00
#define DSM_ENCRYPT_USER 0x01
#define DSM_ENCRYPT_CLIENTENCRKEY 0x02
#define DSM_ENCRYPT_DES_56BIT 0x04
#define DSM_ENCRYPT_AES_128BIT 0x08
#define DSM_ENCRYPT_AES_256BIT 0x10

#define DSM_USERAUTH_NONE 0x0000
#define DSM_USERAUTH_ACCESS 0x0001
#define DSM_USERAUTH_OWNER 0x0002
#define DSM_USERAUTH_POLICY 0x0004
#define DSM_USERAUTH_SYSTEM 0x0008

#define DSM_GROUPTYPE_NONE 0x00
#define DSM_GROUPTYPE_RESERVED1 0x01
#define DSM_GROUPTYPE_PEER 0x02
#define DSM_GROUPTYPE_RESERVED2 0x03
#define DSM_GROUP_ACTION_BEGIN 0x01
#define DSM_GROUP_ACTION_OPEN 0x02
#define DSM_GROUP_ACTION_CLOSE 0x03
#define DSM_GROUP_ACTION_ADD 0x04
#define DSM_GROUP_ACTION_ASSIGNTO 0x05
#define DSM_GROUP_ACTION_REMOVE 0x06
#define DSM_MEMBERTYPE_LEADER 0x01
#define DSM_MEMBERTYPE_MEMBER 0x02

/* Session and environment */

typedef struct dsmApiVersion {
    dsUint16_t version;
    dsUint16_t release;
    dsUint16_t level;
} dsmApiVersion;

#define apiVersionExVer 2
typedef struct dsmApiVersionEx {
    dsUint16_t stVersion;
    dsUint16_t version;
    dsUint16_t release;
    dsUint16_t level;
    dsUint16_t subLevel;
    dsmBool_t unicode; /* from version 2; a Unicode build, on Windows only */
} dsmApiVersionEx;

#define appVersionVer 1
typedef struct dsmAppVersion {
    dsUint16_t stVersion;
    dsUint16_t applicationVersion; /* the application's own numbers, shown by the server */
    dsUint16_t applicationRelease;
    dsUint16_t applicationLevel;
    dsUint16_t applicationSubLevel;
} dsmAppVersion;

#define envSetUpVersion 4
typedef struct envSetUp {
    dsUint16_t stVersion;
    char dsmiDir[DSM_PATH_MAX + DSM_NAME_MAX + 1];    /* replaces DSMI_DIR; empty: keep */
    char dsmiConfig[DSM_PATH_MAX + DSM_NAME_MAX + 1]; /* replaces DSMI_CONFIG, a full file name */
    char dsmiLog[DSM_PATH_MAX + DSM_NAME_MAX + 1];    /* replaces DSMI_LOG, a directory */
    char **argv;                                      /* the program's, or NULL */
    char logName[DSM_NAME_MAX + 1];                   /* name of the error log, if another than the default */
    dsmBool_t reserved1;
    dsmBool_t reserved2;
} envSetUp;

#define dsmInitExInVersion 5
typedef struct dsmInitExIn_t {
    dsUint16_t stVersion;
    dsmApiVersionEx *apiVersionExP; /* what the caller was built for; never NULL */
    char *clientNodeNameP;          /* NULL: from the options, else the host name */
    char *clientOwnerNameP;         /* owner of the session; NULL or "": all owners */
    char *clientPasswordP;          /* NULL with PASSWORDACCESS GENERATE */
    char *userNameP;                /* administrator, normally NULL */
    char *userPasswordP;
    char *applicationTypeP;         /* at most 16 characters, the server's node type; may be NULL */
    char *configfile;               /* API configuration file, or NULL */
    char *options;                  /* such as "-se=NAME -tcpp=1500", or NULL */
    char dirDelimiter;              /* 0: "/" */
    dsmBool_t useUnicode;           /* on Windows only */
    dsmBool_t bCrossPlatform;
    dsmBool_t bService;             /* on Windows only */
    dsmBool_t bEncryptKeyEnabled;   /* the library encrypts */
    char *encryptionPasswordP;
    dsmBool_t useTsmBuffers;        /* the library lends the buffers */
    dsUint8_t numTsmBuffers;        /* how many */
    dsmAppVersion *appVersionP;     /* from version 5; may be NULL */
} dsmInitExIn_t;

#define dsmInitExOutVersion 3
typedef struct dsmInitExOut_t {
    dsUint16_t stVersion;
    dsInt16_t userNameAuthorities; /* DSM_USERAUTH_ bits */
    dsInt16_t infoRC;              /* information besides OK, e.g. REJECT_LASTSESS_CANCELED */
    char adsmServerName[DSM_MAX_SERVERNAME_LENGTH + 1];
    dsUint16_t serverVer;
    dsUint16_t serverRel;
    dsUint16_t serverLev;
    dsUint16_t serverSubLev;
    dsmBool_t bIsFailOverMode;     /* from here on version 3 */
    char replServerName[DSM_MAX_SERVERNAME_LENGTH + 1];
    char homeServerName[DSM_MAX_SERVERNAME_LENGTH + 1];
} dsmInitExOut_t;

#define ApiSessInfoVersion 6
typedef struct ApiSessInfo {
    dsUint16_t stVersion;
    char serverHost[DSM_MAX_SERVERNAME_LENGTH + 1];
    dsUint16_t serverPort;
    dsmDate serverDate;                             /* server clock */
    char serverType[DSM_MAX_SERVERTYPE_LENGTH + 1]; /* such as Linux/x86_64 */
    dsUint16_t serverVer;
    dsUint16_t serverRel;
    dsUint16_t serverLev;
    dsUint16_t serverSubLev;
    char nodeType[DSM_MAX_PLATFORM_LENGTH + 1];     /* application type */
    char fsdelim;                                   /* "/" */
    char hldelim;                                   /* "/" */
    dsUint8_t compression;                          /* COMPRESS_ */
    dsUint8_t archDel;                              /* ARCHDEL_: may the node delete archives */
    dsUint8_t backDel;                              /* BACKDEL_ */
    dsUint32_t maxBytesPerTxn;                      /* TXNBYTELIMIT in bytes */
    dsUint16_t maxObjPerTxn;                        /* TXNGROUPMAX of the server */
    char id[DSM_MAX_ID_LENGTH + 1];                 /* node name */
    char owner[DSM_MAX_OWNER_LENGTH + 1];
    char confFile[DSM_PATH_MAX + DSM_NAME_MAX + 1];
    dsUint8_t opNoTrace;
    char domainName[DSM_MAX_DOMAIN_LENGTH + 1];
    char policySetName[DSM_MAX_PS_NAME_LENGTH + 1];
    dsmDate polActDate;
    char dfltMCName[DSM_MAX_MC_NAME_LENGTH + 1];
    dsUint16_t gpBackRetn;                          /* grace periods in days */
    dsUint16_t gpArchRetn;
    char adsmServerName[DSM_MAX_SERVERNAME_LENGTH + 1];
    dsmBool_t archiveRetentionProtection;           /* the server protects archives */
    dsStruct64_t maxBytesPerTxn_64;                 /* from here on version 5 */
    dsmBool_t lanFreeEnabled;
    dsmDedupType dedupType;
    char accessNode[DSM_MAX_NODE_LENGTH + 1];       /* ASNODENAME */
    dsmFailOvrCfgType failOverCfgType;              /* from here on version 6 */
    char replServerName[DSM_MAX_SERVERNAME_LENGTH + 1];
    char homeServerName[DSM_MAX_SERVERNAME_LENGTH + 1];
    char replServerHost[DSM_MAX_SERVERNAME_LENGTH + 1];
    dsInt32_t replServerPort;
} ApiSessInfo;

typedef struct optStruct {
    char dsmiDir[DSM_PATH_MAX + DSM_NAME_MAX + 1];
    char dsmiConfig[DSM_PATH_MAX + DSM_NAME_MAX + 1];
    char serverName[DSM_MAX_SERVERNAME_LENGTH + 1]; /* of the stanza in dsm.sys */
    dsInt16_t commMethod;                           /* DSM_COMM_ */
    char serverAddress[DSM_MAX_SERVER_ADDRESS];
    char nodeName[DSM_MAX_NODE_LENGTH + 1];
    dsmBool_t compression;
    dsmBool_t compressalways;
    dsmBool_t passwordAccess;                       /* DSM_PASSWD_ */
} optStruct;

/* Names, attributes, data */

typedef struct dsmObjName {
    char fs[DSM_MAX_FSNAME_LENGTH + 1]; /* file space */
    char hl[DSM_MAX_HL_LENGTH + 1];     /* high-level name: begins with "/", or is empty */
    char ll[DSM_MAX_LL_LENGTH + 1];     /* low-level name: begins with "/" */
    dsUint8_t objType;                  /* DSM_OBJ_ */
} dsmObjName;

#define ObjAttrVersion 4
typedef struct ObjAttr {
    dsUint16_t stVersion;
    char owner[DSM_MAX_OWNER_LENGTH + 1]; /* empty: the owner of the session */
    dsStruct64_t sizeEstimate;            /* bytes */
    dsmBool_t objCompressed;              /* by the application: the library must not compress */
    dsUint16_t objInfoLength;
    dsmBytes *objInfo;                    /* any bytes, at most 255, with useExtObjInfo 1500 */
    char *mcNameP;                        /* stronger than the class bound, or NULL */
    dsmBool_t disableDeduplication;       /* from version 3 */
    dsmBool_t useExtObjInfo;              /* from version 4 */
} ObjAttr;

#define DataBlkVersion 3
typedef struct DataBlk {
    dsUint16_t stVersion;
    dsUint32_t bufferLen;          /* in: bytes to send, or room */
    dsUint32_t numBytes;           /* out: bytes taken or delivered */
    dsmBytes *bufferPtr;
    dsUint32_t numBytesCompressed; /* from version 2; out */
    dsUint16_t reserved;           /* from version 3 */
} DataBlk;

#define sndArchiveDataVersion 1
typedef struct sndArchiveData {
    dsUint16_t stVersion;
    char *descr; /* at most 255 bytes; may be NULL */
} sndArchiveData;

#define mcBindKeyVersion 1
typedef struct mcBindKey {
    dsUint16_t stVersion;
    char mcName[DSM_MAX_MC_NAME_LENGTH + 1]; /* the class bound */
    dsmBool_t backup_cg_exists;
    dsmBool_t archive_cg_exists;
    char backup_copy_dest[DSM_MAX_CG_DEST_LENGTH + 1];
    char archive_copy_dest[DSM_MAX_CG_DEST_LENGTH + 1];
} mcBindKey;

/* Input and output of the ...Ex functions that end an operation */

#define dsmEndSendObjExInVersion 1
typedef struct dsmEndSendObjExIn_t {
    dsUint16_t stVersion;
    dsUint32_t dsmHandle;
} dsmEndSendObjExIn_t;

#define dsmEndSendObjExOutVersion 3
typedef struct dsmEndSendObjExOut_t {
    dsUint16_t stVersion;
    dsStruct64_t totalBytesSent;   /* as the application sent them */
    dsmBool_t objCompressed;
    dsStruct64_t totalCompressSize;
    dsStruct64_t totalLFBytesSent; /* not over the LAN */
    dsUint8_t encryptionType;      /* DSM_ENCRYPT_ bits */
    dsmBool_t objDeduplicated;     /* from here on version 3 */
    dsStruct64_t totalDedupSize;
} dsmEndSendObjExOut_t;

#define dsmEndTxnExInVersion 1
typedef struct dsmEndTxnExIn_t {
    dsUint16_t stVersion;
    dsUint32_t dsmHandle;
    dsUint8_t vote; /* DSM_VOTE_ */
} dsmEndTxnExIn_t;

#define dsmEndTxnExOutVersion 1
typedef struct dsmEndTxnExOut_t {
    dsUint16_t stVersion;
    dsUint16_t reason;      /* DSM_RS_ */
    ObjID groupLeaderObjId; /* only after DSM_GROUP_ACTION_OPEN */
    dsUint8_t reserved1;
    dsUint16_t reserved2;
} dsmEndTxnExOut_t;

#define dsmEndGetDataExInVersion 1
typedef struct dsmEndGetDataExIn_t {
    dsUint16_t stVersion;
    dsUint32_t dsmHandle;
} dsmEndGetDataExIn_t;

#define dsmEndGetDataExOutVersion 1
typedef struct dsmEndGetDataExOut_t {
    dsUint16_t stVersion;
    dsUint16_t reason;
    dsStruct64_t totalLFBytesRecv; /* not over the LAN */
} dsmEndGetDataExOut_t;

/* Get lists */

#define PartialObjDataVersion 1
typedef struct PartialObjData {
    dsUint16_t stVersion;
    dsStruct64_t partialObjOffset; /* of the first byte */
    dsStruct64_t partialObjLength; /* bytes; 0: to the end */
} PartialObjData;

#define dsmGetListVersion 2
#define dsmGetListPORVersion 3 /* with partialObjData */
typedef struct dsmGetList {
    dsUint16_t stVersion;
    dsUint32_t numObjId;
    ObjID *objId;
    PartialObjData *partialObjData; /* as many as objId; only with dsmGetListPORVersion */
} dsmGetList;

/* File spaces */

typedef struct dsmUnixFSAttrib {
    dsUint16_t fsInfoLength;
    char fsInfo[DSM_MAX_FSINFO_LENGTH]; /* at most 480 in use */
} dsmUnixFSAttrib;

typedef dsmUnixFSAttrib dsmNetwareFSAttrib;

typedef struct dsmDosFSAttrib {
    char driveLetter;
    dsUint16_t fsInfoLength;
    char fsInfo[DSM_MAX_FSINFO_LENGTH];
} dsmDosFSAttrib;

typedef union dsmFSAttr {
    dsmNetwareFSAttrib netwareFSAttr; /* same layout as unix */
    dsmUnixFSAttrib unixFSAttr;
    dsmDosFSAttrib dosFSAttr;
} dsmFSAttr;

#define regFSDataVersion 1
typedef struct regFSData {
    dsUint16_t stVersion;
    char *fsName;
    char *fsType;     /* at most 32 characters */
    dsStruct64_t occupancy;
    dsStruct64_t capacity;
    dsmFSAttr fsAttr; /* unixFSAttr */
} regFSData;

#define dsmFSUpdVersion 1
typedef struct dsmFSUpd {
    dsUint16_t stVersion;
    char *fsType;
    dsStruct64_t occupancy;
    dsStruct64_t capacity;
    dsmFSAttr fsAttr;
} dsmFSUpd;

/* Queries: what the caller asks */

#define qryArchiveDataVersion 1
typedef struct qryArchiveData {
    dsUint16_t stVersion;
    dsmObjName *objName;
    char *owner;               /* "" or NULL: any that the session sees */
    dsmDate insDateLowerBound; /* year DATE_MINUS_INFINITE: open */
    dsmDate insDateUpperBound; /* year DATE_PLUS_INFINITE: open */
    dsmDate expDateLowerBound;
    dsmDate expDateUpperBound;
    char *descr;               /* pattern; "*", "" or NULL: any */
} qryArchiveData;

#define qryMCDataVersion 1
typedef struct qryMCData {
    dsUint16_t stVersion;
    char *mcName;       /* no pattern; "" or NULL: all */
    dsmBool_t mcDetail; /* true: answers are qryRespMCDetailData */
} qryMCData;

#define qryFSDataVersion 1
typedef struct qryFSData {
    dsUint16_t stVersion;
    char *fsName; /* pattern */
} qryFSData;

#define qryBackupDataVersion 2
typedef struct qryBackupData {
    dsUint16_t stVersion;
    dsmObjName *objName;
    char *owner;
    dsUint8_t objState; /* DSM_ACTIVE, DSM_INACTIVE, DSM_ANY_MATCH */
    dsmDate pitDate;
} qryBackupData;

#define qryABackupDataVersion 1
typedef struct qryABackupData {
    dsUint16_t stVersion;
    dsmObjName *objName;
} qryABackupData;

#define qryBackupGroupsVersion 3
typedef struct qryBackupGroups {
    dsUint16_t stVersion;
    dsUint8_t groupType;
    char *fsName;
    char *owner;
    ObjID groupLeaderObjId;
    dsUint8_t objType;
    dsmBool_t noRestoreOrder;
    dsmBool_t noGroupInfo;
    char *hl;
} qryBackupGroups;

#define qryProxyNodeDataVersion 1
typedef struct qryProxyNodeData {
    dsUint16_t stVersion;
    char *targetNodeName;
} qryProxyNodeData;

/* Queries: what dsmGetNextQObj fills */

#define qryRespArchiveDataVersion 7
typedef struct qryRespArchiveData {
    dsUint16_t stVersion;
    dsmObjName objName;
    dsUint32_t copyGroup;
    char mcName[DSM_MAX_MC_NAME_LENGTH + 1];          /* the class bound */
    char owner[DSM_MAX_OWNER_LENGTH + 1];
    ObjID objId;
    dsStruct64_t reserved;
    dsUint8_t mediaClass;                             /* MEDIA_ */
    dsmDate insDate;                                  /* archived */
    dsmDate expDate;                                  /* may go; never: year DATE_PLUS_INFINITE */
    char descr[DSM_MAX_DESCR_LENGTH + 1];
    dsUint16_t objInfolen;
    dsmBytes reservedObjInfo[DSM_MAX_OBJINFO_LENGTH]; /* was objInfo before version 7 */
    dsUint160_t restoreOrderExt;
    dsStruct64_t sizeEstimate;                        /* as given when sent */
    dsUint8_t compressType;                           /* DSM_OBJ_COMPRESSED_ */
    dsUint8_t retentionInitiated;                     /* DSM_ARCH_RETINIT_ */
    dsUint8_t objHeld;                                /* DSM_ARCH_HELD_ */
    dsUint8_t encryptionType;                         /* DSM_ENCRYPT_ bits */
    dsmBool_t clientDeduplicated;                     /* from version 6 */
    dsmBytes objInfo[DSM_MAX_EXT_OBJINFO_LENGTH];     /* from here on version 7 */
    char compressAlg[DSM_MAX_COMPRESSTYPE_LENGTH + 1];
} qryRespArchiveData;

typedef struct archDetailCG {
    char cgName[DSM_MAX_CG_NAME_LENGTH + 1];   /* empty: the class has no archive copy group */
    dsUint16_t frequency;
    dsUint16_t retainVers;                     /* RETVER in days; 65535: no limit */
    dsUint8_t copySer;                         /* Copy_Serial_ */
    dsUint8_t copyMode;                        /* Copy_Mode_ */
    char destName[DSM_MAX_CG_DEST_LENGTH + 1]; /* storage pool */
    dsmBool_t bLanFreeDest;
    dsmBool_t reserved;
    dsUint8_t retainInit;                      /* ARCH_RETINIT_ */
    dsUint16_t retainMin;                      /* RETMIN in days, with ARCH_RETINIT_EVENT */
    dsmBool_t bDeduplicate;                    /* from version 4 of the response */
} archDetailCG;

typedef struct backupDetailCG {
    char cgName[DSM_MAX_CG_NAME_LENGTH + 1];
    dsUint16_t frequency;
    dsUint16_t verDataExst;
    dsUint16_t verDataDltd;
    dsUint16_t retXtraVers;
    dsUint16_t retOnlyVers;
    dsUint8_t copySer;
    dsUint8_t copyMode;
    char destName[DSM_MAX_CG_DEST_LENGTH + 1];
    dsmBool_t bLanFreeDest;
    dsmBool_t reserved;
    dsmBool_t bDeduplicate; /* from version 4 of the response */
} backupDetailCG;

#define qryRespMCDataVersion 1
typedef struct qryRespMCData {
    dsUint16_t stVersion;
    char mcName[DSM_MAX_MC_NAME_LENGTH + 1];
    char mcDesc[DSM_MAX_MC_DESCR_LENGTH + 1];
} qryRespMCData;

#define qryRespMCDetailDataVersion 4
typedef struct qryRespMCDetailData {
    dsUint16_t stVersion;
    char mcName[DSM_MAX_MC_NAME_LENGTH + 1];
    char mcDesc[DSM_MAX_MC_DESCR_LENGTH + 1];
    archDetailCG archDet;
    backupDetailCG backupDet;
} qryRespMCDetailData;

#define qryRespFSDataVersion 4
typedef struct qryRespFSData {
    dsUint16_t stVersion;
    char fsName[DSM_MAX_FSNAME_LENGTH + 1];
    char fsType[DSM_MAX_FSTYPE_LENGTH + 1]; /* with "API:" before it */
    dsStruct64_t occupancy;
    dsStruct64_t capacity;
    dsmFSAttr fsAttr;
    dsmDate backStartDate;
    dsmDate backCompleteDate;
    dsmDate reserved1;
    dsmDate lastReplStartDate;              /* from here on version 4 */
    dsmDate lastReplCmpltDate;
    dsmDate lastBackOpDateFromServer;
    dsmDate lastArchOpDateFromServer;
    dsmDate lastSpMgOpDateFromServer;
    dsmDate lastBackOpDateFromLocal;
    dsmDate lastArchOpDateFromLocal;
    dsmDate lastSpMgOpDateFromLocal;
    dsInt32_t failOverWriteDelay;           /* -1 no access, -2 read only */
} qryRespFSData;

#define qryRespAccessDataVersion 1
typedef struct qryRespAccessData {
    dsUint16_t stVersion;
    char node[DSM_MAX_NODE_LENGTH + 1];
    char owner[DSM_MAX_OWNER_LENGTH + 1];
    dsmObjName objName;
    dsmAccessType accessType;
    dsUint32_t ruleNumber;
} qryRespAccessData;

typedef struct reservedInfo_t {
    dsUint8_t reserved1;
    dsStruct64_t reserved2;
} reservedInfo_t;

#define qryRespBackupDataVersion 8
typedef struct qryRespBackupData {
    dsUint16_t stVersion;
    dsmObjName objName;
    dsUint32_t copyGroup;
    char mcName[DSM_MAX_MC_NAME_LENGTH + 1];
    char owner[DSM_MAX_OWNER_LENGTH + 1];
    ObjID objId;
    dsStruct64_t reserved;
    dsUint8_t mediaClass;
    dsUint8_t objState;
    dsmDate insDate;
    dsmDate expDate;
    dsUint16_t objInfolen;
    dsmBytes reservedObjInfo[DSM_MAX_OBJINFO_LENGTH];
    dsUint160_t restoreOrderExt;
    dsStruct64_t sizeEstimate;
    ObjID baseObjId;
    dsUint16_t baseObjInfolen;
    dsUint8_t baseObjInfo[DSM_MAX_OBJINFO_LENGTH];
    dsUint160_t baseRestoreOrder;
    dsUint32_t fsID;
    dsUint8_t compressType;
    dsmBool_t isGroupLeader;
    dsmBool_t isOpenGroup;
    dsUint8_t reserved1;
    dsmBool_t reserved2;
    dsUint16_t reserved3;
    reservedInfo_t *reserved4;
    dsUint8_t encryptionType;
    dsmBool_t clientDeduplicated;
    dsmBytes objInfo[DSM_MAX_EXT_OBJINFO_LENGTH];
    char compressAlg[DSM_MAX_COMPRESSTYPE_LENGTH + 1];
} qryRespBackupData;

#define qryARespBackupDataVersion 2
typedef struct qryARespBackupData {
    dsUint16_t stVersion;
    dsmObjName objName;
    dsUint32_t copyGroup;
    char mcName[DSM_MAX_MC_NAME_LENGTH + 1];
    char owner[DSM_MAX_OWNER_LENGTH + 1];
    dsmDate insDate;
    dsUint16_t objInfolen;
    dsmBytes reservedObjInfo[DSM_MAX_OBJINFO_LENGTH];
    dsmBytes objInfo[DSM_MAX_EXT_OBJINFO_LENGTH];
} qryARespBackupData;

#define qryRespProxyNodeDataVersion 1
typedef struct qryRespProxyNodeData {
    dsUint16_t stVersion;
    char targetNodeName[DSM_MAX_NODE_LENGTH + 1];
    char peerNodeName[DSM_MAX_NODE_LENGTH + 1];
    char hlAddress[DSM_MAX_NODE_LENGTH + 1];
    char llAddress[DSM_MAX_NODE_LENGTH + 1];
} qryRespProxyNodeData;

/* Deleting and retention */

#define delBackVersion 1
typedef struct delBack {
    dsUint16_t stVersion;
    dsmObjName *objNameP;
    dsUint32_t copyGroup;
} delBack;

#define delArchVersion 1
typedef struct delArch {
    dsUint16_t stVersion;
    ObjID objId;
} delArch;

#define delBackIDVersion 1
typedef struct delBackID {
    dsUint16_t stVersion;
    ObjID objId;
} delBackID;

typedef union dsmDelInfo {
    delBack backInfo;
    delArch archInfo;
    delBackID backIDInfo;
} dsmDelInfo;

#define dsmObjlistVersion 1
typedef struct dsmObjList_t {
    dsUint16_t stVersion;
    dsUint32_t numObjId;
    ObjID *objId;
} dsmObjList_t;

#define dsmRetentionEventInVersion 1
typedef struct dsmRetentionEventIn_t {
    dsUint16_t stVersion;
    dsUint32_t dsmHandle;
    dsmEventType_t eventType;
    dsmObjList_t objList; /* with a stVersion of its own */
} dsmRetentionEventIn_t;

#define dsmRetentionEventOutVersion 1
typedef struct dsmRetentionEventOut_t {
    dsUint16_t stVersion;
} dsmRetentionEventOut_t;

/* Updating, renaming, logging */

#define dsmUpdateObjExInVersion 1
typedef struct dsmUpdateObjExIn_t {
    dsUint16_t stVersion;
    dsUint32_t dsmHandle;
    dsmSendType sendType;
    char *descrP;
    dsmObjName *objNameP;
    ObjAttr *objAttrPtr;
    dsUint32_t objUpdAct; /* DSM_ARCHUPD_ or DSM_BACKUPD_ bits */
    ObjID archObjId;      /* 0: by name */
} dsmUpdateObjExIn_t;

#define dsmUpdateObjExOutVersion 1
typedef struct dsmUpdateObjExOut_t {
    dsUint16_t stVersion;
} dsmUpdateObjExOut_t;

#define dsmRenameInVersion 1
typedef struct dsmRenameIn_t {
    dsUint16_t stVersion;
    dsUint32_t dsmHandle;
    dsUint8_t repository; /* DSM_ARCHIVE_REP or DSM_BACKUP_REP */
    dsmObjName *objNameP;
    char newHl[DSM_MAX_HL_LENGTH + 1];
    char newLl[DSM_MAX_LL_LENGTH + 1];
    dsmBool_t merge;
    ObjID objId;          /* of an archive */
} dsmRenameIn_t;

#define dsmRenameOutVersion 1
typedef struct dsmRenameOut_t {
    dsUint16_t stVersion;
} dsmRenameOut_t;

typedef struct logInfo {
    char *message;
    dsmLogType logType;
} logInfo;

#define dsmLogExInVersion 2
typedef struct dsmLogExIn_t {
    dsUint16_t stVersion;
    dsmLogSeverity severity;
    char appMsgID[8]; /* perhaps without a NUL */
    dsmLogType logType;
    char *message;
    char appName[16];
    char osPlatform[16];
    char appVersion[16];
} dsmLogExIn_t;

#define dsmLogExOutVersion 1
typedef struct dsmLogExOut_t {
    dsUint16_t stVersion;
} dsmLogExOut_t;

/* Groups of backup objects */

#define dsmGroupHandlerInVersion 1
typedef struct dsmGroupHandlerIn_t {
    dsUint16_t stVersion;
    dsUint32_t dsmHandle;
    dsUint8_t groupType;
    dsUint8_t actionType;
    dsUint8_t memberType;
    ObjID leaderObjId;
    char *uniqueGroupTagP;
    dsmObjName *objNameP;
    dsmGetList memberObjList;
} dsmGroupHandlerIn_t;

#define dsmGroupHandlerOutVersion 1
typedef struct dsmGroupHandlerOut_t {
    dsUint16_t stVersion;
} dsmGroupHandlerOut_t;

/* Library buffers */

#define requestBufferInVersion 1
typedef struct requestBufferIn_t {
    dsUint16_t stVersion;
    dsUint32_t dsmHandle;
} requestBufferIn_t;

#define requestBufferOutVersion 1
typedef struct requestBufferOut_t {
    dsUint16_t stVersion;
    dsUint8_t tsmBufferHandle;
    dsmBytes *dataPtr;
    dsUint32_t bufferLen;
} requestBufferOut_t;

#define releaseBufferInVersion 1
typedef struct releaseBufferIn_t {
    dsUint16_t stVersion;
    dsUint32_t dsmHandle;
    dsUint8_t tsmBufferHandle;
    dsmBytes *dataPtr;
} releaseBufferIn_t;

#define releaseBufferOutVersion 1
typedef struct releaseBufferOut_t {
    dsUint16_t stVersion;
} releaseBufferOut_t;

#define getBufferDataInVersion 1
typedef struct getBufferDataIn_t {
    dsUint16_t stVersion;
    dsUint32_t dsmHandle;
} getBufferDataIn_t;

#define getBufferDataOutVersion 1
typedef struct getBufferDataOut_t {
    dsUint16_t stVersion;
    dsUint8_t tsmBufferHandle;
    dsmBytes *dataPtr;
    dsUint32_t numBytes;
} getBufferDataOut_t;

#define sendBufferDataInVersion 1
typedef struct sendBufferDataIn_t {
    dsUint16_t stVersion;
    dsUint32_t dsmHandle;
    dsUint8_t tsmBufferHandle;
    dsmBytes *dataPtr;
    dsUint32_t numBytes;
} sendBufferDataIn_t;

#define sendBufferDataOutVersion 1
typedef struct sendBufferDataOut_t {
    dsUint16_t stVersion;
} sendBufferDataOut_t;

/* The functions.
 *
 * A session is in one state at a time, and a call that its state does not allow is DSM_RC_BAD_CALL_SEQUENCE:
 *
 *   Session      after dsmInitEx, and after every end of the following
 *   Transaction  from dsmBeginTxn to dsmEndTxn
 *   Send         from dsmSendObj to dsmEndSendObj, in a transaction
 *   Query        from dsmBeginQuery to dsmEndQuery
 *   Get          from dsmBeginGetData to dsmEndGetData
 *   Get object   from dsmGetObj to dsmEndGetObj, in a get
 *
 * Each comment ends with the states it is legal in and with its codes (without DSM_RC_). Not repeated there, because
 * any call with a handle may give them: INVALID_DS_HANDLE, BAD_CALL_SEQUENCE, WRONG_VERSION_PARM, INVALID_PARM for a
 * structure that is NULL, TCPIP_FAILURE once the connection is lost, COMM_PROTOCOL_ERROR, and NO_MEMORY. A call that
 * fails leaves the state as it was. The handle is examined first, then the state, then the other arguments.
 */
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* Before a session */

/* Version, release and level of the library. Always legal. */
extern void dsmQueryApiVersion(dsmApiVersion *apiVersionP);

/* The same with subLevel, and with unicode where stVersion is 2 or more. Always legal; stVersion may be 0. */
extern void dsmQueryApiVersionEx(dsmApiVersionEx *apiVersionP);

/* Prepares the process, once, before any session. mtFlag: DSM_MULTITHREAD allows several sessions at once. envSetUpP:
 * paths that replace DSMI_DIR, DSMI_CONFIG and DSMI_LOG; NULL or empty strings leave those in force.
 * Option files are read by dsmInitEx. Codes: OK, BAD_CALL_SEQUENCE, WRONG_VERSION_PARM, INVALID_PARM. */
extern dsInt16_t dsmSetUp(dsBool_t mtFlag, envSetUp *envSetUpP);

/* Reads the option files without a session. optstructP is filled whole: it has no version. Legal before dsmInitEx.
 * Codes: OK, INVALID_OPT, NO_HOST_ADDR, NO_OPT_FILE, INVALID_SERVER, INVALID_KEYWORD, NO_SYS_OR_INCLEXCL. */
extern dsInt16_t dsmQueryCliOptions(optStruct *optstructP);

/* Signs on and fills *dsmHandleP, never with 0. Old form of the next function: node, owner, password and option string
 * directly, no output. Its codes are those of dsmInitEx. */
extern dsInt16_t dsmInit(dsUint32_t *dsmHandleP, dsmApiVersion *apiVersionP, char *clientNodeNameP,
                         char *clientOwnerNameP, char *clientPasswordP, char *applicationType, char *configfile,
                         char *options);

/* Reads the options, connects, signs on. Stronger options win over weaker: dsm.sys, the option string, the API
 * configuration file, dsm.opt. initOutP describes the server; its infoRC may be set although OK is returned.
 * Codes: OK; REJECT_VERIFIER_EXPIRED, whose handle is good for dsmChangePW and dsmTerminate only;
 * CLIENT_NOT_ARCHRETPROT for a protected server and a client that has not enabled protection; the other REJECT_ codes,
 * AUTH_FAILURE, TCPIP_FAILURE, CONN_TIMEDOUT, BAD_HOST_NAME, WRONG_VERSION for a caller newer than the library,
 * NO_OWNER_REQD, NO_NODE_REQD, PASSWD_TOOLONG, NO_PASS_FILE, and the codes of options. */
extern dsInt16_t dsmInitEx(dsUint32_t *dsmHandleP, dsmInitExIn_t *initInP, dsmInitExOut_t *initOutP);

/* Ends a session in any state. An open transaction is rolled back. Harmless with handle 0 and when called twice. The
 * session does not end while buffers are lent, unless its connection is lost.
 * Codes: OK, MUST_RELEASE_BUFFER. */
extern dsInt16_t dsmTerminate(dsUint32_t dsmHandle);

/* The last call, after all sessions, with the flag of dsmSetUp. Codes: OK. */
extern dsInt16_t dsmCleanUp(dsBool_t mtFlag);

/* Writes the text of dsmRC and a newline to msg, at most 128 bytes with the NUL (callers that expect more have room
 * for DSM_MAX_RC_MSG_LENGTH). Always legal, the handle is not checked.
 * Codes: OK, NULL_MSG, INVALID_RETCODE for a number without a text. */
extern dsInt16_t dsmRCMsg(dsUint32_t dsmHandle, dsInt16_t dsmRC, char *msg);

/* About the session */

/* What the server reported of itself, the node and its policy, as far as stVersion has fields for it. stVersion may be
 * 0. Legal in every state, so it can serve as a keep-alive. Codes: OK, NO_SESS_BLK, NO_POLICY_BLK. */
extern dsInt16_t dsmQuerySessInfo(dsUint32_t dsmHandle, ApiSessInfo *sessInfoP);

/* The options in force. optstructP is filled whole. Session. Codes: OK. */
extern dsInt16_t dsmQuerySessOptions(dsUint32_t dsmHandle, optStruct *optstructP);

/* Session, or after REJECT_VERIFIER_EXPIRED. Passwords have at most DSM_MAX_VERIFIER_LENGTH characters.
 * Codes: OK, ABORT_BAD_VERIFIER, OLDPW_REQD, NEWPW_REQD, PASSWD_TOOLONG, NO_PASS_FILE, NEED_ROOT. */
extern dsInt16_t dsmChangePW(dsUint32_t dsmHandle, char *oldPW, char *newPW);

/* Writes to the server's log, the error log of the client, or both. Session. Codes: OK, STRING_TOO_LONG,
 * LOG_CANT_BE_OPENED, LOG_NOT_SPECIFIED, LOG_ERROR_WRITING_TO_LOG. */
extern dsInt16_t dsmLogEvent(dsUint32_t dsmHandle, logInfo *lopInfoP);

/* The same with severity and application. The handle is an argument of its own, unlike in the other ...Ex functions. */
extern dsInt16_t dsmLogEventEx(dsUint32_t dsmHandle, dsmLogExIn_t *dsmLogExInP, dsmLogExOut_t *dsmLogExOutP);

/* File spaces. Session. Names begin with the delimiter. */

/* Creates a file space. The server keeps the type with "API:" before it. stVersion may be 0.
 * Codes: OK; FS_ALREADY_REGED when it exists, which is no failure; INVALID_FSNAME, NULL_FSNAME, FILESPACE_TOOLONG,
 * FSINFO_TOOLONG beyond DSM_MAX_USER_FSINFO_LENGTH. */
extern dsInt16_t dsmRegisterFS(dsUint32_t dsmHandle, regFSData *regFilespaceP);

/* fsUpdAct: the fields of fsUpdP to update, DSM_FSUPD_ bits. Codes: OK, FS_NOT_REGISTERED, INVALID_ACTION,
 * FSINFO_TOOLONG. */
extern dsInt16_t dsmUpdateFS(dsUint32_t dsmHandle, char *fs, dsmFSUpd *fsUpdP, dsUint32_t fsUpdAct);

/* A transaction of its own. repository: DSM_ARCHIVE_REP, DSM_BACKUP_REP or DSM_REPOS_ALL. A protected server removes
 * only expired objects that are not held, and answers OK. Codes: OK, FSNAME_NOTFOUND, INVALID_REPOS,
 * ABORT_NOT_AUTHORIZED, NEED_ROOT. */
extern dsInt16_t dsmDeleteFS(dsUint32_t dsmHandle, char *fs, unsigned char repository);

/* Transactions */

/* Session. Codes: OK, ABORT_NODE_NOT_AUTHORIZED in a session on behalf of another node. */
extern dsInt16_t dsmBeginTxn(dsUint32_t dsmHandle);

/* Decides the transaction. Both results count: the code, and *reason, which is always written.
 * vote: DSM_VOTE_COMMIT or DSM_VOTE_ABORT. Transaction; with DSM_VOTE_ABORT also Send.
 * Codes: OK with reason 0: committed and durable. CHECK_REASON_CODE: rolled back for the DSM_RS_ code in *reason, for
 * instance ABORT_BY_CLIENT after a vote to abort and ABORT_DELETE_NOT_ALLOWED for an object that is retained or held.
 * INVALID_VOTE: the transaction is still open. */
extern dsInt16_t dsmEndTxn(dsUint32_t dsmHandle, dsUint8_t vote, dsUint16_t *reason);

/* The same. */
extern dsInt16_t dsmEndTxnEx(dsmEndTxnExIn_t *dsmEndTxnExInP, dsmEndTxnExOut_t *dsmEndTxnExOutP);

/* Sending */

/* Binds a name to a management class for the send that follows, and fills mcBindKeyP. The binding outlives the
 * transaction. Session, Transaction. Codes: OK, TL_NOACG and TL_NOBCG (the class has no copy group for that kind),
 * TL_EXCLUDED (bound all the same), PS_INVALID_ARCHMC, INVALID_OBJTYPE, INVALID_SENDTYPE, INVALID_PARM,
 * NULL_OBJNAME. */
extern dsInt16_t dsmBindMC(dsUint32_t dsmHandle, dsmObjName *objNameP, dsmSendType sendType, mcBindKey *mcBindKeyP);

/* Opens an object. sendBuff: sndArchiveData for an archive, it or its descr may be NULL. dataBlkPtr: the first bytes,
 * or NULL. An object of sizeEstimate 0 gets no data; otherwise the estimate is not binding. Transaction; then Send.
 * Codes: OK; WILL_ABORT: the transaction is lost, vote to commit and read the reason; NEEDTO_ENDTXN: this object is
 * one too many, end this transaction and send it in the next; NEEDTO_CALL_BINDMC, FS_NOT_REGISTERED, INVALID_MCNAME,
 * OBJ_NOACG, OBJ_EXCLUDED, ABORT_INSERT_NOT_ALLOWED, INVALID_SENDTYPE, INVALID_OBJTYPE, INVALID_FSNAME,
 * INVALID_HLNAME, INVALID_LLNAME, WILDCHAR_NOTALLOWED, FILESPACE_TOOLONG, HL_TOOLONG, LL_TOOLONG, DESC_TOOLONG,
 * OBJINFO_TOOLONG, SENDDATA_WITH_ZERO_SIZE, NULL_OBJNAME, NULL_OBJATTRPTR, INVALID_DATABLK. */
extern dsInt16_t dsmSendObj(dsUint32_t dsmHandle, dsmSendType sendType, void *sendBuff, dsmObjName *objNameP,
                            ObjAttr *objAttrPtr, DataBlk *dataBlkPtr);

/* The next bytes of the object, any number. All are taken, numBytes says so, and the buffer is the caller's again.
 * Send. Codes: OK, WILL_ABORT, SENDDATA_WITH_ZERO_SIZE, NULL_DATABLKPTR, NULL_BUFPTR. */
extern dsInt16_t dsmSendData(dsUint32_t dsmHandle, DataBlk *dataBlkPtr);

/* Closes the object. Send; then Transaction. Codes: OK, WILL_ABORT. */
extern dsInt16_t dsmEndSendObj(dsUint32_t dsmHandle);

/* The same; also returns the number of bytes. */
extern dsInt16_t dsmEndSendObjEx(dsmEndSendObjExIn_t *dsmEndSendObjExInP, dsmEndSendObjExOut_t *dsmEndSendObjExOutP);

/* Changing what is stored */

/* Asks to delete an object; delInfo is passed by value. The reason of dsmEndTxn reports a refusal, never this call.
 * Transaction. Codes: OK (noted), WILL_ABORT, INVALID_PARAMETER for an unknown type, FS_NOT_REGISTERED,
 * ABORT_TXN_LIMIT_EXCEEDED. */
extern dsInt16_t dsmDeleteObj(dsUint32_t dsmHandle, dsmDelType delType, dsmDelInfo delInfo);

/* Starts the retention of event-based objects, holds objects, or releases them; once in a transaction, at most
 * maxObjPerTxn ids, all or none of them. Transaction.
 * Codes, from this call or as the reason of dsmEndTxn: OK, ABORT_NO_MATCH, ABORT_LICENSE_VIOLATION,
 * ABORT_NODE_NOT_AUTHORIZED, ABORT_INVALID_OPERATION, ABORT_TXN_LIMIT_EXCEEDED, ABORT_OBJECT_ALREADY_HELD. */
extern dsInt16_t dsmRetentionEvent(dsmRetentionEventIn_t *dsmRetentionEventInP,
                                   dsmRetentionEventOut_t *dsmRetentionEventOutP);

/* Changes attributes of the object archived last under a name. sendBuff: sndArchiveData when the description changes.
 * objUpdAct: DSM_ARCHUPD_ or DSM_BACKUPD_ bits. A transaction of its own. Session. Codes: OK, ABORT_NO_MATCH,
 * ABORT_NODE_NOT_AUTHORIZED, INVALID_ACTION, FS_NOT_REGISTERED, INVALID_SENDTYPE, WILDCHAR_NOTALLOWED, and those of
 * names that are too long. */
extern dsInt16_t dsmUpdateObj(dsUint32_t dsmHandle, dsmSendType sendType, void *sendBuff, dsmObjName *objNameP,
                              ObjAttr *objAttrPtr, dsUint32_t objUpdAct);

/* The same; an archObjId other than 0 picks the object. */
extern dsInt16_t dsmUpdateObjEx(dsmUpdateObjExIn_t *dsmUpdateObjExInP, dsmUpdateObjExOut_t *dsmUpdateObjExOutP);

/* Transaction. A protected server renames nothing. Codes: OK, ABORT_NO_MATCH, ABORT_DUPLICATE_OBJECT,
 * ABORT_MERGE_ERROR, ABORT_INVALID_OPERATION, REJECT_SERVER_DOWNLEVEL, INVALID_REPOS. */
extern dsInt16_t dsmRenameObj(dsmRenameIn_t *dsmRenameInP, dsmRenameOut_t *dsmRenameOutP);

/* Groups of backup objects. Transaction. Codes: OK, ABORT_INVALID_GROUP_ACTION. */
extern dsInt16_t dsmGroupHandler(dsmGroupHandlerIn_t *dsmGroupHandlerInP, dsmGroupHandlerOut_t *dsmGroupHandlerOutP);

/* Queries */

/* queryBuffer: the structure that belongs to the type, qryArchiveData, qryFSData, qryMCData and so on. hl, ll, descr
 * and fsName of qryFSData may have the wildcards * and ?. Session; then Query.
 * Codes: OK, FILE_SPACE_NOT_FOUND, INVALID_OBJTYPE, INVALID_OBJOWNER, NO_POLICY_BLK. */
extern dsInt16_t dsmBeginQuery(dsUint32_t dsmHandle, dsmQueryType queryType, dsmQueryBuff *queryBuffer);

/* One answer into the response structure that bufferPtr points to, whose stVersion the caller has set.
 * Query. Codes: MORE_DATA: an answer of numBytes bytes; FINISHED with numBytes 0: there are no more (a caller should
 * also accept a last answer with FINISHED and numBytes above 0); ABORT_NO_MATCH from the first call: there was none;
 * INVALID_MCNAME: no such class; BUFF_TOO_SMALL, NULL_DATABLKPTR, NULL_BUFPTR. */
extern dsInt16_t dsmGetNextQObj(dsUint32_t dsmHandle, DataBlk *dataBlkPtr);

/* Query, at the end or before it; then Session. Codes: OK. */
extern dsInt16_t dsmEndQuery(dsUint32_t dsmHandle);

/* Retrieving */

/* Announces the objects that will be requested, in this order; best in ascending restoreOrderExt. getListP: with
 * dsmGetListVersion whole objects, with dsmGetListPORVersion parts of them. Session; then Get.
 * Codes: OK, OBJID_NOTFOUND for a list of NULL, NUMOBJ_EXCEED, ABORT_INVALID_OFFSET, ABORT_INVALID_LENGTH. */
extern dsInt16_t dsmBeginGetData(dsUint32_t dsmHandle, dsBool_t mountWait, dsmGetType getType, dsmGetList *getListP);

/* Opens an object of the list and delivers its first bytes. Objects before it cannot be opened any more. Get; then
 * Get object. Codes: MORE_DATA: numBytes bytes and not the end; FINISHED: numBytes bytes, perhaps none, and the end;
 * ABORT_NO_MATCH, OBJID_NOTFOUND, ABORT_DATA_OFFLINE, ABORT_DATA_UNAVAILABLE, ABORT_INVALID_OFFSET,
 * ABORT_INVALID_LENGTH, NULL_DATABLKPTR, ZERO_BUFLEN, NULL_BUFPTR, INVALID_DATABLK. */
extern dsInt16_t dsmGetObj(dsUint32_t dsmHandle, ObjID *objIdP, DataBlk *dataBlkPtr);

/* The next bytes. Get object. Codes as dsmGetObj; after the end always FINISHED with numBytes 0. */
extern dsInt16_t dsmGetData(dsUint32_t dsmHandle, DataBlk *dataBlkPtr);

/* Closes the object, at its end or before. Get object; then Get. Codes: OK. */
extern dsInt16_t dsmEndGetObj(dsUint32_t dsmHandle);

/* Get, Get object; then Session. May wait until the data in transit has arrived. Codes: OK. */
extern dsInt16_t dsmEndGetData(dsUint32_t dsmHandle);

/* The same, with the reason and the bytes that did not come over the LAN. */
extern dsInt16_t dsmEndGetDataEx(dsmEndGetDataExIn_t *dsmEndGetDataExInP, dsmEndGetDataExOut_t *dsmEndGetDataExOutP);

/* Rules by which other nodes and owners may read what this node has archived. No rule allows a change. A named
 * owner's session makes rules for that owner's objects, and sees and deletes only its own.
 *
 * A session that reads by a rule has FROMNODE, FROMOWNER or both in its options. Its queries and gets then read that
 * node's and owner's objects, and every call that changes something is refused with ABORT_NODE_NOT_AUTHORIZED. Session.
 */

/* *accessListP is the library's memory and must not be freed; it is valid until the next call or the end of the
 * session. Codes: OK, ABORT_NO_MATCH. */
extern dsInt16_t dsmQueryAccess(dsUint32_t dsmHandle, qryRespAccessData **accessListP, dsUint16_t *numberOfRules);

/* hl, ll, node and owner may have wildcards; owner NULL or "" is every owner. The object's type is ignored.
 * Codes: OK, ABORT_RULE_ALREADY_DEFED, ABORT_NODE_NOT_AUTHORIZED, ABORT_NO_DB_SPACE for more rules than a node may
 * have, FSNAME_NOTFOUND, INVALID_ACCESS_TYPE, NO_FILES_BACKUP, NO_FILES_ARCHIVE where nothing has such a name,
 * INVALID_SETACCESS, those of names. */
extern dsInt16_t dsmSetAccess(dsUint32_t dsmHandle, dsmAccessType accessType, dsmObjName *objNameP, char *node,
                              char *owner);

/* ruleNumber is that of dsmQueryAccess. Codes: OK, ABORT_NO_MATCH, ABORT_NODE_NOT_AUTHORIZED. */
extern dsInt16_t dsmDeleteAccess(dsUint32_t dsmHandle, dsUint32_t ruleNumber);

/* Library buffers, in sessions that were opened with useTsmBuffers and 1 to 255 of them. There dsmSendObj and dsmGetObj
 * take no DataBlk (INVALID_DATABLK), dsmSendData and dsmGetData are out of sequence, and parts of objects cannot be
 * read (POR_NOT_ALLOWED). A buffer has 256 KiB; it is the caller's until it is sent or released, whatever happens to
 * the object and the transaction. */

/* Lends a buffer. While all are lent it waits for another thread to give one back, as long as the session waits for its
 * server. Send. Codes: OK, SENDDATA_WITH_ZERO_SIZE, BUFF_ARRAY_ERROR when none came back, NO_MEMORY. */
extern dsInt16_t dsmRequestBuffer(requestBufferIn_t *getBufferInP, requestBufferOut_t *getBufferOutP);

/* Gives a buffer back unsent, or after dsmGetBufferData. Session, Send, Get object. Codes: OK, INVALID_TSMBUFFER. */
extern dsInt16_t dsmReleaseBuffer(releaseBufferIn_t *relBufferInP, releaseBufferOut_t *relBufferOutP);

/* The next bytes of the object in a buffer that the library lends; without bytes it lends none. Get object. Codes as
 * dsmGetData, those of dsmRequestBuffer. */
extern dsInt16_t dsmGetBufferData(getBufferDataIn_t *getBufferDataInP, getBufferDataOut_t *getBufferDataOutP);

/* Sends the bytes of a lent buffer and gives it back, also if sending fails. Send. Codes: OK, WILL_ABORT;
 * INVALID_TSMBUFFER and TOO_MANY_BYTES, which do not give it back. */
extern dsInt16_t dsmSendBufferData(sendBufferDataIn_t *sendBufferDataInP, sendBufferDataOut_t *sendBufferDataOutP);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
