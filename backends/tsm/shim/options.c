#include "options.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "logging.h"
#include "text_file.h"

enum value_kind {
    TEXT,            /* at most `high` bytes */
    NUMBER,          /* from `low` to `high` */
    YES_OR_NO,
    YES_OR_ON,       /* off and on, which IBM's sample files have, are allowed too */
    YES_OR_DEFAULT,  /* SERVERonly is yes for a session with a server */
    GENERATE,        /* prompt or generate */
    TCP,             /* the communication method */
    INCLUDE_EXCLUDE, /* the path of an include-exclude list */
};

struct keyword {
    const char *name; /* the capital letters are the shortest abbreviation */
    enum value_kind kind;
    size_t offset;
    long low;
    long high;
};

#define LIST_DEPTH_MAX 8 /* of include-exclude lists that name others */
#define RULE_NAME_SIZE 32
#define FIELD(name) offsetof(struct options, name)
#define ROOM(name) ((long)sizeof(((struct options *)0)->name) - 1)

static const struct keyword KEYWORDS[] = {
    {"SErvername", TEXT, FIELD(server_name), 0, ROOM(server_name)},
    {"COMMMethod", TCP, 0, 0, 0},
    {"COMMTimeout", NUMBER, FIELD(timeout_seconds), 1, 3600}, /* our meaning: time limit for each wait for the server */
    {"TCPServeraddress", TEXT, FIELD(address), 0, ROOM(address)},
    {"TCPPort", NUMBER, FIELD(port), 1, 65535},
    {"TCPNodelay", YES_OR_NO, FIELD(has_no_delay), 0, 0},
    {"TCPWindowsize", NUMBER, FIELD(window_kib), 0, 2048},
    {"NODename", TEXT, FIELD(node), 0, ROOM(node)},
    {"PASSWORDAccess", GENERATE, FIELD(generates_password), 0, 0},
    {"PASSWORDDIR", TEXT, FIELD(password_directory), 0, ROOM(password_directory)},
    {"PASsword", TEXT, FIELD(password), 0, ROOM(password)},
    {"ENABLEARCHIVERETENTIONPROTECTION", YES_OR_NO, FIELD(has_retention_protection), 0, 0},
    {"COMPRESSIon", YES_OR_ON, FIELD(compresses), 0, 0},
    {"COMPRESSAlways", YES_OR_NO, FIELD(compresses_always), 0, 0},
    {"INCLExcl", INCLUDE_EXCLUDE, 0, 0, 0},
    {"ERRORLOGName", TEXT, FIELD(error_log), 0, ROOM(error_log)},
    {"SSL", YES_OR_NO, FIELD(has_tls), 0, 0},
    {"SSLREQuired", YES_OR_DEFAULT, FIELD(requires_tls), 0, 0},
    {"SSLCAFILE", TEXT, FIELD(authorities), 0, ROOM(authorities)}, /* a PEM file; IBM's library uses a key database */
    {"FROMNode", TEXT, FIELD(from_node), 0, ROOM(from_node)},
    {"FROMOwner", TEXT, FIELD(from_owner), 0, ROOM(from_owner)},
};

static const struct keyword *const SERVER_NAME = &KEYWORDS[0];

/* Options that change whose objects a session sees. If they were ignored, it would see others than the caller
 * expects. */
static const struct refusal {
    const char *name;
    const char *why;
} REFUSED[] = {
    {"ASNODEname", "makes the session a proxy for another node, which this library does not support; sign on as "
                   "that node"},
    {"VIRTUALNodename", "signs on under another node's name for restores; name that node with NODename"},
};

/* The other options of IBM's clients, from the chapter "Client options reference" of their manuals (8.1 and 8.2). They
 * concern other programs than those of the API, or the speed of IBM's library. SSLACCEPTCERTFROMSERV is here because
 * this library trusts certificates of authorities only. ENABLELANFree is here because IBM's client, too, falls back to
 * the network. */
static const char *const OTHERS[] = {
    "ABSolute", "AFSBACKUPMntpnt", "ARCHMc", "ARCHSYMLinkasfile", "AUDITLOGGing", "AUDITLOGName", "AUTODEPloy",
    "AUTOFsrename", "AUTOMount", "BACKMc", "BACKUPSETName", "BASESNAPshotname", "CADLISTENonport",
    "CANdidatesinterval", "CASESENSITIVEAware", "CHAngingretries", "CHEckthresholds", "CLASs", "CLUSTERnode",
    "COLLOCATEBYFilespec", "COMMRESTARTDuration", "COMMRESTARTInterval", "CONSOLE", "CREATENEWBase", "DATACENTER",
    "DATASTORE", "DATEformat", "DEDUPCACHEPath", "DEDUPCACHESize", "DEDUPlication", "DEFAultserver", "DELetefiles",
    "DESCription", "DETail", "DIFFSNAPSHot", "DIFFSNAPSHOTName", "DIRMc", "DIRsonly", "DISABLENqr", "DISKBuffsize",
    "DISKCACHELocation", "DOMain", "DOMain.image", "DOMain.nas", "DOMain.vmfull", "DYNAMICImage", "ENABLEDEDUPCache",
    "ENABLEINSTRUMENTation", "ENABLELANFree", "ENCRYPTIONTYPE", "ENCRYPTKey", "ERRORLOGMAX", "ERRORLOGRetention",
    "ERRORPROG", "FILELIst", "FILESOnly", "FOLlowsymbolic", "FORcefailover", "FROMDate", "FROMTime", "GROUPName",
    "GROups", "GUITREEViewafterbackup", "HSMBACKENDMODE", "HSMBACKupmode", "HSMDISAbleautomigdaemons",
    "HSMDISTributedrecall", "HSMENABLEIMMediatemigrate", "HSMEXTOBJIDATTR", "HSMGROupedmigrate", "HSMLOGEVENTFlags",
    "HSMLOGMAX", "HSMLOGName", "HSMLOGRetention", "HSMMAXRECalltapedrives", "HSMMIGZEROBLOCKfiles", "HSMMULTIServer",
    "HTTPport", "IEObjtype", "IFNewer", "IMAGEGapsize", "IMAGETOfile", "INACtive", "INCRBYDate", "INCRTHreshold",
    "INSTRLOGMAX", "INSTRLOGName", "LANFREECommmethod", "LANFREESHmport", "LANFREESsl", "LANFREETCPPort",
    "LANFREETCPServeraddress", "LANGuage", "LARGECOMmbuffers", "LATest", "LOCALbackupset", "MAKESParsefile",
    "MANAGEDServices", "MAXCANDProcs", "MAXCMDRetries", "MAXMIGRators", "MAXRECAlldaemons", "MAXRECOncileproc",
    "MAXTHRESHoldproc", "MBOBJrefreshthresh", "MBPCTrefreshthresh", "MEMORYEFficientbackup", "MIGFILEEXPiration",
    "MIGRATESERver", "MINMIGFILESize", "MINRECAlldaemons", "MINSTREAMFILESize", "MODE", "MONitor",
    "MYPRIMARYServername", "MYREPLICATIONServer", "NAMedpipename", "NASNodename", "NFSTIMEout", "NOJournal",
    "NOPrompt", "NRTABLEPath", "NUMberformat", "OPTFILE", "OPTIONFormat", "PICk", "PITDate", "PITTime",
    "POSTNSchedulecmd", "POSTSchedulecmd", "POSTSNAPShotcmd", "PRENSchedulecmd", "PRESchedulecmd",
    "PREServelastaccessdate", "PRESERVEPath", "PRESNAPShotcmd", "PRIORITY", "QUERYSCHedperiod", "QUIET",
    "QUOTESARELiteral", "RECOncileinterval", "REMOVEOPerandlimit", "REPlace", "REPLSERVERGUID", "REPLSERVERName",
    "REPLSSLPort", "REPLTCPPort", "REPLTCPServeraddress", "RESOURceutilization", "RESToremigstate", "RETRYPeriod",
    "REVOKEremoteaccess", "SCHEDCMDDisabled", "SCHEDCMDException", "SCHEDGROUP", "SCHEDLOGMAX", "SCHEDLOGName",
    "SCHEDLOGRetention", "SCHEDMODe", "SCHEDRESTRetrdisabled", "SCROLLLines", "SCROLLPrompt", "SESSIONINITiation",
    "SETWINDOWTITLE", "SHMPort", "SHOWMembers", "SKIPACL", "SKIPACLUPdatecheck", "SKIPMIGrated", "SNAPDIFF",
    "SNAPDIFFHTTPS", "SNAPSHOTCACHELocation", "SNAPSHOTCACHESize", "SNAPSHOTPROVIDERFs", "SNAPSHOTPROVIDERImage",
    "SNAPSHOTRoot", "SRVOPTSETENCryptiondisabled", "SRVPREPOSTSCHeddisabled", "SRVPREPOSTSNAPdisabled",
    "SSLACCEPTCERTFROMSERV", "SSLDISABLELEGACYtls", "SSLFIPSMODE", "STAGINGDIRectory", "SUbdir", "TAPEPrompt",
    "TCPADMINPort", "TCPBuffsize", "TCPCADAddress", "TCPCLIENTAddress", "TCPCLIENTPort", "TESTFlags", "TIMEformat",
    "TOCDestination", "TODate", "TOTime", "TRACEFIle", "TRACEFLags", "TRACEMax", "TRACESegsize", "TXNBytelimit",
    "UPDATECtime", "USEREPLICATIONFailover", "USErs", "V2archive", "VERBose", "VERIFYImage", "VIRTUALFsname",
    "VIRTUALMountpoint", "VMAUTOSTARTVM", "VMBACKDir", "VMBACKUPLOCation", "VMBACKUPMAILBOXHISTORY",
    "VMBACKUPNODELETE", "VMBACKUPType", "VMBACKUPUPDATEGUID", "VMCHost", "VMCPw", "VMCTLMC", "VMCUser",
    "VMDATASTORETHRESHOLD", "VMDEFAULTDVPORTGROUP", "VMDEFAULTNETWORK", "VMDISKPROVISION", "VMENABLETEMPLATEBACKUPS",
    "VMEXPIREPROTECT", "VMFULLType", "VMISCSIADAPTER", "VMLIMITPERDATASTORE", "VMLIMITPERHOST", "VMLIST",
    "VMMAXBACKUPSESSIONS", "VMMAXParallel", "VMMAXRESTORESESSIONS", "VMMAXVIRTUALDISKS", "VMMC", "VMMOUNTAGE",
    "VMNOPRDMDISKS", "VMNOVRDMDISKS", "VMPREFERDAGPASSIVE", "VMPROCESSVMWITHINDEPENDENT", "VMPROCESSVMWITHPRDM",
    "VMRESTORETYPE", "VMSKIPCTLCOMPRESSION", "VMSKIPMAXVIRTUALDISKS", "VMSTORAGETYPE", "VMTAGDATAMOVER",
    "VMTAGDEFAULTDATAMOVER", "VMTEMPDATASTORE", "VMTIMEOUT", "VMVERIFYIFACTION", "VMVERIFYIFLATEST",
    "VMVSTORTRANSPORT", "WEBPorts", "WILDCARDSareliteral",
};
#define OTHER_COUNT (sizeof OTHERS / sizeof *OTHERS)

/* Where an option stands: a line of a file, or the options string of a program if there is no file. */
struct place {
    struct options *options;
    const struct text_file *file;
};

static bool is_capital(char character)
{
    return character >= 'A' && character <= 'Z';
}

/* Returns whether the word is the name or an abbreviation of it that keeps the capital letters and digits at its
 * beginning. */
static bool is_abbreviation(const char *name, const char *word, size_t length)
{
    size_t shortest = 0;
    while (is_capital(name[shortest]) || (name[shortest] >= '0' && name[shortest] <= '9')) {
        shortest++;
    }
    return length >= shortest && length <= strlen(name) && strncasecmp(name, word, length) == 0;
}

static const struct keyword *find_keyword(const char *word, size_t length)
{
    for (size_t i = 0; i < sizeof KEYWORDS / sizeof *KEYWORDS; i++) {
        if (is_abbreviation(KEYWORDS[i].name, word, length)) {
            return &KEYWORDS[i];
        }
    }
    return NULL;
}

static dsInt16_t refuse(const struct place *place, dsInt16_t code, const char *word, size_t length, const char *why)
{
    int shown = length < 64 ? (int)length : 64;
    if (place->file) {
        report(place->options, "%s:%u: %.*s: %s", place->file->path, place->file->line, shown, word, why);
    } else {
        report(place->options, "options string: %.*s: %s", shown, word, why);
    }
    return code;
}

/* Adds the option to the list of those ignored, unless an earlier call in this process has logged it. */
static void note_ignored(const struct place *place, size_t other)
{
    static atomic_bool is_logged[OTHER_COUNT];
    char *list = place->options->ignored;
    size_t used = strlen(list);
    if (!place->file || atomic_exchange(&is_logged[other], true)) {
        return;
    }
    snprintf(list + used, sizeof place->options->ignored - used, "%s%s:%u: %s", used ? ", " : "", place->file->path,
             place->file->line, OTHERS[other]);
}

static const char *set_number(long *field, const char *value, const struct keyword *keyword, char *why, size_t size)
{
    char *end;
    errno = 0;
    long number = strtol(value, &end, 10);
    if (errno || end == value || *end || number < keyword->low || number > keyword->high) {
        snprintf(why, size, "must be a number from %ld to %ld", keyword->low, keyword->high);
        return why;
    }
    *field = number;
    return NULL;
}

/* The words of the options with two values, and what to say of others. */
static const struct choice {
    const char *no[2];
    const char *yes[2];
    const char *why;
} CHOICES[] = {
    [YES_OR_NO] = {{"no", "no"}, {"yes", "yes"}, "must be Yes or No"},
    [YES_OR_ON] = {{"no", "off"}, {"yes", "on"}, "must be Yes or No"},
    [YES_OR_DEFAULT] = {{"no", "default"}, {"yes", "serveronly"}, "must be Default, Yes, No or SERVERonly"},
    [GENERATE] = {{"prompt", "prompt"}, {"generate", "generate"}, "must be prompt or generate"},
};

static const char *set_choice(bool *field, const char *value, const struct choice *choice)
{
    bool is_yes = strcasecmp(value, choice->yes[0]) == 0 || strcasecmp(value, choice->yes[1]) == 0;
    if (!is_yes && strcasecmp(value, choice->no[0]) != 0 && strcasecmp(value, choice->no[1]) != 0) {
        return choice->why;
    }
    *field = is_yes;
    return NULL;
}

/* Returns why the value is refused, NULL if it was set. `why` has room for a text of `size` bytes. */
static const char *set_value(struct options *options, const struct keyword *keyword, const char *value, char *why,
                             size_t size)
{
    char *field = (char *)options + keyword->offset;
    switch (keyword->kind) {
    case TEXT:
        if (strlen(value) > (size_t)keyword->high) {
            snprintf(why, size, "is longer than %ld bytes", keyword->high);
            return why;
        }
        strcpy(field, value);
        return NULL;
    case NUMBER:
        return set_number((long *)(void *)field, value, keyword, why, size);
    default:
        return set_choice((bool *)field, value, &CHOICES[keyword->kind]);
    }
}

static dsInt16_t apply_list(const struct place *place, const char *path, unsigned depth);

static dsInt16_t apply_keyword(const struct place *place, const struct keyword *keyword, const char *value)
{
    char buffer[64];
    size_t length = strlen(keyword->name);
    if (*value == '\0') {
        return refuse(place, DSM_RC_INVALID_OPT, keyword->name, length, "has no value");
    }
    if (keyword->kind == INCLUDE_EXCLUDE) {
        return apply_list(place, value, 0);
    }
    if (keyword->kind == TCP) {
        size_t value_length = strlen(value);
        bool is_known = is_abbreviation("TCPip", value, value_length);
        is_known |= is_abbreviation("V6Tcpip", value, value_length);
        return is_known ? DSM_RC_OK
                        : refuse(place, DSM_RC_INV_COMM_METHOD, keyword->name, length, "must be TCPip or V6Tcpip");
    }
    const char *why = set_value(place->options, keyword, value, buffer, sizeof buffer);
    return why ? refuse(place, DSM_RC_INVALID_OPT, keyword->name, length, why) : DSM_RC_OK;
}

/* An option that is not among KEYWORDS. */
static dsInt16_t apply_other(const struct place *place, const char *word, size_t length, dsInt16_t unknown)
{
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
        if (is_abbreviation(REFUSED[i].name, word, length)) {
            return refuse(place, DSM_RC_INVALID_OPT, REFUSED[i].name, strlen(REFUSED[i].name), REFUSED[i].why);
        }
    }
    for (size_t i = 0; i < OTHER_COUNT; i++) {
        if (is_abbreviation(OTHERS[i], word, length)) {
            note_ignored(place, i);
            return DSM_RC_OK;
        }
    }
    return refuse(place, unknown, word, length, "is not an option of the client");
}

/* Removes the quotes of a value that begins with one. Returns false if the second one is missing. */
static bool unquote(char **value)
{
    char quote = **value;
    if (quote != '"' && quote != '\'') {
        return true;
    }
    char *last = *value + strlen(*value) - 1;
    if (last == *value || *last != quote) {
        return false;
    }
    *last = '\0';
    (*value)++;
    return true;
}

static size_t word_length(const char *line)
{
    return strcspn(line, " \t");
}

/* Applies a line `keyword value` of an option file, or a line of an include-exclude list, at that depth. */
static dsInt16_t apply_line(const struct place *place, char *line, unsigned depth)
{
    size_t length = word_length(line);
    const struct keyword *keyword = find_keyword(line, length);
    char *value = line + length + strspn(line + length, " \t");
    if (keyword) {
        if (!unquote(&value)) {
            return refuse(place, DSM_RC_UNMATCHED_QUOTE, keyword->name, strlen(keyword->name), "lacks a quote");
        }
        return keyword->kind == INCLUDE_EXCLUDE && *value ? apply_list(place, value, depth)
                                                          : apply_keyword(place, keyword, value);
    }
    if (!is_rule(line)) {
        return apply_other(place, line, length, DSM_RC_INVALID_KEYWORD);
    }
    const char *why;
    char rule[RULE_NAME_SIZE];
    snprintf(rule, sizeof rule, "%.*s", (int)length, line);
    dsInt16_t code = rules_add(&place->options->rules, line, &why);
    return code ? refuse(place, code, rule, strlen(rule), why) : DSM_RC_OK;
}

static const char *why_unreadable(void)
{
    return errno == EILSEQ ? "is not in UTF-8 but in UTF-16; save it as UTF-8"
           : errno == EINVAL ? "is not a text, or longer than 1 MiB"
                             : strerror(errno);
}

/* Applies an include-exclude list at the place of the option that names it. Lists may name other lists. */
static dsInt16_t apply_list(const struct place *place, const char *path, unsigned depth)
{
    struct text_file file;
    if (depth == LIST_DEPTH_MAX) {
        return refuse(place, DSM_RC_INVALID_OPT, "INCLExcl", 8, "names lists within lists, too many");
    }
    if (!text_file_open(&file, path)) {
        char why[PATH_SIZE + 64];
        snprintf(why, sizeof why, "%s %s", path, why_unreadable());
        return refuse(place, DSM_RC_NO_INCLEXCL_FILE, "INCLExcl", 8, why);
    }
    dsInt16_t code = DSM_RC_OK;
    const struct place within = {place->options, &file};
    for (char *line = text_file_line(&file); line && !code; line = text_file_line(&file)) {
        const struct keyword *keyword = find_keyword(line, word_length(line));
        bool is_allowed = is_rule(line) || (keyword && keyword->kind == INCLUDE_EXCLUDE);
        code = is_allowed ? apply_line(&within, line, depth + 1)
                          : refuse(&within, DSM_RC_INVALID_OPT, line, word_length(line), "does not belong in a list");
    }
    text_file_close(&file);
    return code;
}

/* Applies dsm.opt or the API configuration file. */
static dsInt16_t apply_file(struct options *options, const char *path, dsInt16_t missing)
{
    struct text_file file;
    if (!text_file_open(&file, path)) {
        report(options, "%s: %s", *path ? path : "DSMI_CONFIG is not set", why_unreadable());
        return missing;
    }
    dsInt16_t code = DSM_RC_OK;
    const struct place place = {options, &file};
    bool has_name = false;
    for (char *line = text_file_line(&file); line && !code; line = text_file_line(&file)) {
        const struct keyword *keyword = find_keyword(line, word_length(line));
        if (keyword == SERVER_NAME && has_name) {
            code = refuse(&place, DSM_RC_INVALID_OPT, keyword->name, strlen(keyword->name),
                          "begins a second stanza, so this is a dsm.sys; DSMI_CONFIG must name a dsm.opt");
        } else {
            has_name |= keyword == SERVER_NAME;
            code = apply_line(&place, line, 0);
        }
    }
    text_file_close(&file);
    return code;
}

/* Applies words `-keyword=value`; the dash is optional. Quotes keep blanks together and are removed. Changes `text`. */
static dsInt16_t apply_words(struct options *options, char *text)
{
    const struct place place = {options, NULL};
    char *at = text;
    for (;;) {
        at += strspn(at, " \t\n");
        if (*at == '\0') {
            return DSM_RC_OK;
        }
        at += *at == '-';
        char *word = at;
        size_t length = strcspn(at, "= \t\n");
        const struct keyword *keyword = find_keyword(at, length);
        if (at[length] != '=') {
            return refuse(&place, DSM_RC_INVALID_OPT, word, length, "must be followed by = and a value");
        }
        at += length + 1;
        char *value = at, *to = at;
        char quote = '\0';
        for (; *at && (quote || !strchr(" \t\n", *at)); at++) {
            if (quote ? *at == quote : *at == '"' || *at == '\'') {
                quote = quote ? '\0' : *at;
            } else {
                *to++ = *at;
            }
        }
        if (quote) {
            return refuse(&place, DSM_RC_UNMATCHED_QUOTE, word, length, "lacks a quote");
        }
        at += *at != '\0';
        *to = '\0';
        dsInt16_t code = keyword ? apply_keyword(&place, keyword, value)
                                 : apply_other(&place, word, length, DSM_RC_INVALID_OPT);
        if (code) {
            return code;
        }
    }
}

static dsInt16_t apply_string(struct options *options, const char *string)
{
    size_t size = strlen(string) + 1;
    char *copy = malloc(size);
    if (!copy) {
        return DSM_RC_NO_MEMORY;
    }
    memcpy(copy, string, size);
    dsInt16_t code = apply_words(options, copy);
    explicit_bzero(copy, size);
    free(copy);
    return code;
}

/* Applies the stanza of dsm.sys that the weaker sources or DEFAULTSERVER named; the first stanza if none did. */
static dsInt16_t apply_stanza(struct options *options)
{
    static const struct keyword DEFAULT = {"DEFAultserver", TEXT, FIELD(server_name), 0, ROOM(server_name)};
    char path[PATH_SIZE + sizeof "/dsm.sys"];
    char wanted[sizeof options->server_name], found[sizeof options->server_name] = "";
    struct text_file file;
    snprintf(path, sizeof path, "%s/dsm.sys", options->environment.directory);
    if (!*options->environment.directory) {
        report(options, "DSMI_DIR is not set; it must name the folder of dsm.sys");
        return DSM_RC_NO_SYS_OR_INCLEXCL;
    }
    if (!text_file_open(&file, path)) {
        report(options, "%s: %s", path, why_unreadable());
        return DSM_RC_NO_SYS_OR_INCLEXCL;
    }
    strcpy(wanted, options->server_name);
    const struct place place = {options, &file};
    bool is_asked = *wanted, is_within = false, is_ours = false;
    dsInt16_t code = DSM_RC_OK;
    for (char *line = text_file_line(&file); line && !code; line = text_file_line(&file)) {
        size_t length = word_length(line);
        const struct keyword *keyword = find_keyword(line, length);
        if (keyword == SERVER_NAME) {
            code = apply_line(&place, line, 0);
            is_within = true;
            is_ours = !code && !*found && (!*wanted || strcasecmp(options->server_name, wanted) == 0);
            if (is_ours) {
                strcpy(found, options->server_name);
            }
        } else if (is_abbreviation("REPLSERVERName", line, length)) { /* a stanza that IBM's client writes itself */
            is_within = true;
            is_ours = false;
        } else if (is_abbreviation(DEFAULT.name, line, length)) {
            if (is_asked) {
                continue;
            }
            code = is_within ? refuse(&place, DSM_RC_INVALID_OPT, DEFAULT.name, strlen(DEFAULT.name),
                                      "must be before the first stanza")
                             : apply_keyword(&place, &DEFAULT, line + length + strspn(line + length, " \t"));
            strcpy(wanted, options->server_name);
        } else if (is_ours) {
            code = apply_line(&place, line, 0);
        } else if (!is_within && (keyword || is_rule(line))) {
            code = refuse(&place, DSM_RC_INVALID_OPT, line, length, "must be in a stanza, after a line SErvername");
        }
    }
    text_file_close(&file);
    if (!code && !*found) {
        report(options, "%s: has no stanza SErvername %s", path, wanted);
        code = DSM_RC_INVALID_SERVER;
    }
    strcpy(options->server_name, found);
    return code;
}

static dsInt16_t read_sources(struct options *options, const char *config_file, const char *string)
{
    dsInt16_t code = apply_file(options, options->environment.config, DSM_RC_NO_OPT_FILE);
    if (!code && config_file && *config_file) {
        code = apply_file(options, config_file, DSM_RC_NO_API_CONFIGFILE);
    }
    if (!code && string) {
        code = apply_string(options, string);
    }
    if (!code) {
        code = apply_stanza(options);
    }
    if (code) {
        return code;
    }
    if (options->requires_tls && !options->has_tls) {
        report(options, "stanza %s: SSLREQuired Yes needs SSL Yes", options->server_name);
        return DSM_RC_INVALID_OPT;
    }
    if (!*options->node && gethostname(options->node, sizeof options->node) != 0) {
        return DSM_RC_OPT_INV_NODENAME;
    }
    return DSM_RC_OK;
}

dsInt16_t options_read(struct options *options, const char *config_file, const char *string)
{
    *options = (struct options){
        .address = "localhost", .port = 1500, .has_no_delay = true, .timeout_seconds = 60};
    report_clear();
    if (!environment_read(&options->environment)) {
        return DSM_RC_INVALID_OPT;
    }
    dsInt16_t code = read_sources(options, config_file, string);
    if (*options->ignored) {
        char line[sizeof options->ignored + 64];
        snprintf(line, sizeof line, "options that this library ignores: %s", options->ignored);
        log_line(options, line);
    }
    return code;
}

void options_wipe(struct options *options)
{
    explicit_bzero(options->password, sizeof options->password);
}

void options_tell(const struct options *options, optStruct *told)
{
    *told = (optStruct){
        .commMethod = DSM_COMM_TCP,
        .compression = options->compresses ? bTrue : bFalse,
        .compressalways = options->compresses_always ? bTrue : bFalse,
        .passwordAccess = options->generates_password ? bTrue : bFalse,
    };
    strcpy(told->dsmiDir, options->environment.directory);
    strcpy(told->dsmiConfig, options->environment.config);
    strcpy(told->serverName, options->server_name);
    strcpy(told->serverAddress, options->address);
    strcpy(told->nodeName, options->node);
}
