#include "options.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "text_file.h"

enum value_kind {
    TEXT,          /* at most `high` bytes */
    NUMBER,        /* from `low` to `high` */
    YES_OR_NO,
    YES_OR_DEFAULT, /* no is allowed too */
    GENERATE,      /* prompt or generate */
    ONLY_TCP,      /* the communication method */
    ONLY_NO,       /* only "no" is accepted: this library does not have the feature */
    IGNORED,       /* for other programs, or for the speed of another library */
};

struct keyword {
    const char *name; /* the capital letters are the shortest abbreviation */
    enum value_kind kind;
    size_t offset;
    long low;
    long high;
};

#define FIELD(name) offsetof(struct options, name)
#define ROOM(name) ((long)sizeof(((struct options *)0)->name) - 1)

static const struct keyword KEYWORDS[] = {
    {"SErvername", TEXT, FIELD(server_name), 0, ROOM(server_name)},
    {"COMMMethod", ONLY_TCP, 0, 0, 0},
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
    {"COMPRESSIon", YES_OR_NO, FIELD(compresses), 0, 0},
    {"COMPRESSAlways", YES_OR_NO, FIELD(compresses_always), 0, 0},
    {"INCLExcl", TEXT, FIELD(include_exclude), 0, ROOM(include_exclude)},
    {"ERRORLOGName", TEXT, FIELD(error_log), 0, ROOM(error_log)},
    {"SSL", YES_OR_NO, FIELD(has_tls), 0, 0},
    {"SSLREQuired", YES_OR_DEFAULT, FIELD(requires_tls), 0, 0},
    {"SSLACCEPTCERTFROMSERV", ONLY_NO, 0, 0, 0}, /* a certificate must be signed by a trusted authority */
    {"SSLCAFILE", TEXT, FIELD(authorities), 0, ROOM(authorities)}, /* a PEM file; IBM's library uses a key database */
    {"FROMNode", TEXT, FIELD(from_node), 0, ROOM(from_node)},
    {"FROMOwner", TEXT, FIELD(from_owner), 0, ROOM(from_owner)},
    {"ENABLELANFREE", ONLY_NO, 0, 0, 0},
    {"AUTOFsrename", IGNORED, 0, 0, 0},
    {"CHANGingretries", IGNORED, 0, 0, 0},
    {"COMMRESTARTDuration", IGNORED, 0, 0, 0},
    {"COMMRESTARTInterval", IGNORED, 0, 0, 0},
    {"DATEformat", IGNORED, 0, 0, 0},
    {"DEDUPlication", IGNORED, 0, 0, 0},
    {"DEFAultserver", IGNORED, 0, 0, 0},
    {"DOMain", IGNORED, 0, 0, 0},
    {"ERRORLOGMAX", IGNORED, 0, 0, 0},
    {"ERRORLOGRetention", IGNORED, 0, 0, 0},
    {"LANGuage", IGNORED, 0, 0, 0},
    {"LARGECOMmbuffers", IGNORED, 0, 0, 0},
    {"MANAGEDServices", IGNORED, 0, 0, 0},
    {"MAXCMDRetries", IGNORED, 0, 0, 0},
    {"NUMberformat", IGNORED, 0, 0, 0},
    {"POSTSchedulecmd", IGNORED, 0, 0, 0},
    {"PRESchedulecmd", IGNORED, 0, 0, 0},
    {"QUIET", IGNORED, 0, 0, 0},
    {"REPlace", IGNORED, 0, 0, 0},
    {"RESOURceutilization", IGNORED, 0, 0, 0},
    {"RETRYPeriod", IGNORED, 0, 0, 0},
    {"SCHEDLOGMAX", IGNORED, 0, 0, 0},
    {"SCHEDLOGName", IGNORED, 0, 0, 0},
    {"SCHEDLOGRetention", IGNORED, 0, 0, 0},
    {"SCHEDMODe", IGNORED, 0, 0, 0},
    {"SSLDISABLELEGACYtls", IGNORED, 0, 0, 0}, /* TLS older than 1.2 is not supported */
    {"SUBDir", IGNORED, 0, 0, 0},
    {"TAPEPrompt", IGNORED, 0, 0, 0},
    {"TCPADMINPort", IGNORED, 0, 0, 0},
    {"TCPBuffsize", IGNORED, 0, 0, 0},
    {"TCPCLIENTAddress", IGNORED, 0, 0, 0},
    {"TCPCLIENTPort", IGNORED, 0, 0, 0},
    {"TIMEformat", IGNORED, 0, 0, 0},
    {"TRACEFile", IGNORED, 0, 0, 0},
    {"TRACEFLAGS", IGNORED, 0, 0, 0},
    {"TXNBytelimit", IGNORED, 0, 0, 0},
    {"USEREPLICATIONFailover", IGNORED, 0, 0, 0},
    {"VERBOSE", IGNORED, 0, 0, 0},
    {"VIRTUALMountpoint", IGNORED, 0, 0, 0},
};
/* ASNODEname is not in the table, so that it is refused as unknown: if it were ignored, the session would see other
 * objects than the caller expects. */

static bool is_capital(char character)
{
    return character >= 'A' && character <= 'Z';
}

static const struct keyword *find_keyword(const char *word, size_t length)
{
    for (size_t i = 0; i < sizeof KEYWORDS / sizeof *KEYWORDS; i++) {
        const char *name = KEYWORDS[i].name;
        size_t shortest = 0;
        while (is_capital(name[shortest])) {
            shortest++;
        }
        if (length >= shortest && length <= strlen(name) && strncasecmp(name, word, length) == 0) {
            return &KEYWORDS[i];
        }
    }
    return NULL;
}

static dsInt16_t set_number(long *field, const char *value, long low, long high)
{
    char *end;
    errno = 0;
    long number = strtol(value, &end, 10);
    if (errno || end == value || *end || number < low || number > high) {
        return DSM_RC_INVALID_OPT;
    }
    *field = number;
    return DSM_RC_OK;
}

static dsInt16_t set_choice(bool *field, const char *value, const char *no, const char *yes)
{
    bool is_yes = strcasecmp(value, yes) == 0;
    if (!is_yes && strcasecmp(value, no) != 0) {
        return DSM_RC_INVALID_OPT;
    }
    *field = is_yes;
    return DSM_RC_OK;
}

static dsInt16_t set_value(struct options *options, const struct keyword *keyword, const char *value)
{
    char *field = (char *)options + keyword->offset;
    if (*value == '\0') {
        return DSM_RC_INVALID_OPT;
    }
    switch (keyword->kind) {
    case TEXT:
        if (strlen(value) > (size_t)keyword->high) {
            return DSM_RC_INVALID_OPT;
        }
        strcpy(field, value);
        return DSM_RC_OK;
    case NUMBER:
        return set_number((long *)(void *)field, value, keyword->low, keyword->high);
    case YES_OR_NO:
        return set_choice((bool *)field, value, "no", "yes");
    case YES_OR_DEFAULT:
        return set_choice((bool *)field, value, strcasecmp(value, "default") == 0 ? value : "no", "yes");
    case GENERATE:
        return set_choice((bool *)field, value, "prompt", "generate");
    case ONLY_TCP:
        return strcasecmp(value, "tcpip") == 0 || strcasecmp(value, "v6tcpip") == 0 ? DSM_RC_OK
                                                                                   : DSM_RC_INV_COMM_METHOD;
    case ONLY_NO:
        return strcasecmp(value, "no") == 0 ? DSM_RC_OK : DSM_RC_INVALID_OPT;
    case IGNORED:
        break;
    }
    return DSM_RC_OK;
}

/* Removes the quotes of a value that begins with one. */
static dsInt16_t unquote(char **value)
{
    char quote = **value;
    if (quote != '"' && quote != '\'') {
        return DSM_RC_OK;
    }
    char *last = *value + strlen(*value) - 1;
    if (last == *value || *last != quote) {
        return DSM_RC_UNMATCHED_QUOTE;
    }
    *last = '\0';
    (*value)++;
    return DSM_RC_OK;
}

/* Applies a line `keyword value` of an option file. */
static dsInt16_t apply_line(struct options *options, char *line)
{
    size_t length = strcspn(line, " \t");
    const struct keyword *keyword = find_keyword(line, length);
    char *value = line + length + strspn(line + length, " \t");
    if (!keyword) {
        return DSM_RC_INVALID_KEYWORD;
    }
    dsInt16_t code = unquote(&value);
    return code ? code : set_value(options, keyword, value);
}

/* Applies dsm.opt or the API configuration file. */
static dsInt16_t apply_file(struct options *options, const char *path, dsInt16_t missing)
{
    struct text_file file;
    if (!text_file_open(&file, path)) {
        return missing;
    }
    dsInt16_t code = DSM_RC_OK;
    for (char *line = text_file_line(&file); line && !code; line = text_file_line(&file)) {
        code = apply_line(options, line);
    }
    text_file_close(&file);
    return code;
}

/* Applies words `-keyword=value`; the dash is optional. Quotes keep blanks together and are removed. Changes `text`. */
static dsInt16_t apply_words(struct options *options, char *text)
{
    char *at = text;
    for (;;) {
        at += strspn(at, " \t\n");
        if (*at == '\0') {
            return DSM_RC_OK;
        }
        at += *at == '-';
        size_t length = strcspn(at, "= \t\n");
        const struct keyword *keyword = find_keyword(at, length);
        if (!keyword || at[length] != '=') {
            return DSM_RC_INVALID_OPT;
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
            return DSM_RC_UNMATCHED_QUOTE;
        }
        at += *at != '\0';
        *to = '\0';
        dsInt16_t code = set_value(options, keyword, value);
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

/* Applies the stanza of dsm.sys that the weaker sources named; the first stanza if they named none. */
static dsInt16_t apply_stanza(struct options *options)
{
    char path[PATH_SIZE + sizeof "/dsm.sys"];
    struct text_file file;
    snprintf(path, sizeof path, "%s/dsm.sys", options->environment.directory);
    if (!*options->environment.directory || !text_file_open(&file, path)) {
        return DSM_RC_NO_SYS_OR_INCLEXCL;
    }
    char wanted[sizeof options->server_name];
    strcpy(wanted, options->server_name);
    bool is_ours = false, is_found = false;
    dsInt16_t code = DSM_RC_OK;
    for (char *line = text_file_line(&file); line && !code; line = text_file_line(&file)) {
        const struct keyword *keyword = find_keyword(line, strcspn(line, " \t"));
        if (keyword && keyword->offset == FIELD(server_name) && keyword->kind == TEXT) {
            struct options stanza;
            code = apply_line(&stanza, line);
            is_ours = !code && !is_found && (!*wanted || strcasecmp(stanza.server_name, wanted) == 0);
            if (is_ours) {
                is_found = true;
                strcpy(options->server_name, stanza.server_name);
            }
        } else if (is_ours) {
            code = apply_line(options, line);
        }
    }
    text_file_close(&file);
    if (code) {
        return code;
    }
    return is_found ? DSM_RC_OK : DSM_RC_INVALID_SERVER;
}

dsInt16_t options_read(struct options *options, const char *config_file, const char *string)
{
    *options = (struct options){.port = 1500, .has_no_delay = true, .timeout_seconds = 60};
    if (!environment_read(&options->environment)) {
        return DSM_RC_INVALID_OPT;
    }
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
    if (!*options->address) {
        return DSM_RC_NO_HOST_ADDR;
    }
    if (options->requires_tls && !options->has_tls) {
        return DSM_RC_INVALID_OPT;
    }
    if (!*options->node && gethostname(options->node, sizeof options->node) != 0) {
        return DSM_RC_OPT_INV_NODENAME;
    }
    return DSM_RC_OK;
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
