/* What the client library reads of files and callers, made of any bytes: options, passwords, rules, names, dates.
 *
 * One idea: these functions need no server, so each input goes through one of them a hundred times as fast as through a
 * session. Whatever they accept has to fit, and to come out the same again.
 *
 * Its own inputs are true texts that were changed.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dates.h"
#include "names.h"
#include "options.h"
#include "password_file.h"
#include "patterns.h"
#include "protocol.h"

#include "../../backends/tsm/fuzz_driver.h"

#define EXPECT(condition) expect(condition, #condition, __LINE__)

enum target { OPTION_FILE, SYSTEM_FILE, OPTION_STRING, PASSWORD_FILE, RULES, PATTERN, NAMES, DATES, TARGETS };

static char folder[1024];

static void expect(bool condition, const char *words, int line)
{
    if (!condition) {
        fprintf(stderr, "texts.c:%d: it is not so that %s\n", line, words);
        abort();
    }
}

static const char *write_file(const char *name, const void *bytes, size_t size)
{
    static char path[sizeof folder + 32];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    EXPECT(file && fwrite(bytes, 1, size, file) == size);
    EXPECT(fclose(file) == 0 && chmod(path, S_IRUSR | S_IWUSR) == 0);
    return path;
}

static bool fits(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

static void read_options(const char *string)
{
    struct options options;
    optStruct told;
    dsInt16_t code = options_read(&options, NULL, string);
    if (code == DSM_RC_OK) {
        EXPECT(options.port >= 1 && options.port <= 65535);
        EXPECT(options.timeout_seconds >= 1 && options.timeout_seconds <= 3600);
        EXPECT(options.window_kib >= 0 && options.window_kib <= 2048);
        EXPECT(*options.address && *options.node);
        EXPECT(options.has_tls || !options.requires_tls);
        EXPECT(fits(options.server_name, sizeof options.server_name) && fits(options.address, sizeof options.address));
        EXPECT(fits(options.node, sizeof options.node) && fits(options.password, sizeof options.password));
        EXPECT(fits(options.from_node, sizeof options.from_node) && fits(options.from_owner, sizeof options.from_owner));
        options_tell(&options, &told);
    }
    options_wipe(&options);
    rules_free(&options.rules);
    EXPECT(*options.password == '\0');
}

static void try_options(enum target target, const char *text, size_t size)
{
    static const char OPTIONS[] = "SErvername ONE\n";
    static const char SYSTEM[] = "SErvername ONE\n TCPServeraddress host\n NODename N\n";
    write_file("dsm.opt", target == OPTION_FILE ? text : OPTIONS, target == OPTION_FILE ? size : sizeof OPTIONS - 1);
    write_file("dsm.sys", target == SYSTEM_FILE ? text : SYSTEM, target == SYSTEM_FILE ? size : sizeof SYSTEM - 1);
    read_options(target == OPTION_STRING ? text : NULL);
}

static void try_password(const char *text, size_t size)
{
    char password[DSM_MAX_VERIFIER_LENGTH + 1], again[sizeof password];
    write_file("TSM.PWD", text, size);
    if (password_file_read(folder, password)) {
        EXPECT(fits(password, sizeof password) && *password);
        EXPECT(password_file_prepare(folder, password) && password_file_replace(folder));
        EXPECT(password_file_read(folder, again) && strcmp(password, again) == 0);
    }
}

static void try_rules(const char *text, size_t size)
{
    static const char OPTIONS[] = "SErvername ONE\n";
    char system[sizeof folder + 64];
    int length = snprintf(system, sizeof system, "SErvername ONE\n INCLExcl %s/rules\n", folder);
    write_file("rules", text, size);
    write_file("dsm.opt", OPTIONS, sizeof OPTIONS - 1);
    write_file("dsm.sys", system, (size_t)length);
    struct options options;
    dsmObjName name = {.fs = "/fs", .hl = "/a/b", .ll = "/file.txt", .objType = DSM_OBJ_FILE};
    const char *class_name = NULL;
    dsInt16_t code = options_read(&options, NULL, NULL);
    if (code == DSM_RC_OK && rules_decide(&options.rules, &name, &class_name) != VERDICT_DEFAULT) {
        EXPECT(class_name && strlen(class_name) <= DSM_MAX_MC_NAME_LENGTH);
    }
    rules_free(&options.rules);
}

/* The text up to the first line's end is the pattern, the rest the name. */
static void try_pattern(char *text)
{
    char *name = text + strcspn(text, "\n");
    if (*name) {
        *name++ = '\0';
    }
    bool is_plain = !strpbrk(text, "*?[") && !strstr(text, "...") && strlen(text) < 1000;
    bool matches = pattern_matches(text, name);
    EXPECT(!is_plain || matches == (strcmp(text, name) == 0));
}

static void try_names(const char *text, size_t size)
{
    dsmObjName *name = calloc(1, sizeof *name);
    EXPECT(name != NULL);
    struct name_lengths lengths;
    memcpy(name, text, size < sizeof *name ? size : sizeof *name);
    if (check_name(name, &lengths) == DSM_RC_OK) {
        EXPECT(lengths.fs == strlen(name->fs) && lengths.fs <= DSM_MAX_FSNAME_LENGTH);
        EXPECT(lengths.hl == strlen(name->hl) && lengths.hl <= DSM_MAX_HL_LENGTH);
        EXPECT(lengths.ll == strlen(name->ll) && lengths.ll <= DSM_MAX_LL_LENGTH);
        EXPECT(check_name_pattern(name, &lengths) == DSM_RC_OK);
    }
    free(name);
}

static void try_dates(const char *text, size_t size)
{
    uint64_t instant_ms = 0, again_ms;
    int32_t offset = 0;
    memcpy(&instant_ms, text, size < sizeof instant_ms ? size : sizeof instant_ms);
    if (size > sizeof instant_ms) {
        size_t left = size - sizeof instant_ms;
        memcpy(&offset, text + sizeof instant_ms, left < sizeof offset ? left : sizeof offset);
    }
    dsmDate date = date_of(instant_ms, offset);
    EXPECT(instant_ms == DATE_NONE || (date.month >= 1 && date.month <= 12 && date.day >= 1 && date.day <= 31));
    EXPECT(date.hour < 24 && date.minute < 60 && date.second < 60);
    bool is_usual = instant_ms > UINT64_C(86400000000) && date.year < 9000 && offset > -86400 && offset < 86400;
    if (is_usual) {
        EXPECT(instant_of(&date, offset, &again_ms) && again_ms == instant_ms / 1000 * 1000);
    }
    memcpy(&date, text, size < sizeof date ? size : sizeof date);
    instant_of(&date, offset, &again_ms);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    enum target target = data[0] % TARGETS;
    char *text = malloc(size); /* so that one byte too many is seen */
    EXPECT(text != NULL);
    memcpy(text, data + 1, --size);
    text[size] = '\0';
    switch (target) {
    case PASSWORD_FILE:
        try_password(text, size);
        break;
    case RULES:
        try_rules(text, size);
        break;
    case PATTERN:
        try_pattern(text);
        break;
    case NAMES:
        try_names(text, size);
        break;
    case DATES:
        try_dates(text, size);
        break;
    default:
        try_options(target, text, size);
    }
    free(text);
    return 0;
}

/* Inputs of our own */

static const char *const SEEDS[TARGETS] = {
    [OPTION_FILE] = "* a comment\nSErvername ONE\nCOMPRESSIon yes\nCOMMTimeout 30\nINCLExcl \"/a file\"\n QUIET\n",
    [SYSTEM_FILE] = ("SErvername ONE\n COMMMethod TCPip\n TCPServeraddress host\n TCPPort 1500\n SSL yes\n"
                    " PASSWORDAccess generate\n SSLREQuired yes\nSErvername TWO\n TCPWindowsize 64\n"),
    [OPTION_STRING] = "-SErvername=ONE -NODename='a node' -PASsword=\"x y\" -TCPNodelay=no FROMOwner=o -FROMNode=N",
    [PASSWORD_FILE] = "*a password\n",
    [RULES] = "include /.../*.txt CLASS\nexclude.archive \"/a b/*\"\n* comment\ninclude /fs/?/... 'C'\n",
    [PATTERN] = "/fs/.../a*?.txt\n/fs/b/c/ab.txt",
    [NAMES] = "/fs",
    [DATES] = "\x07\xea\x02\x06\x0a\x0b\x0c\x01\x00\x00\x10\x0e\x00\x00",
};

static size_t make_input(uint8_t bytes[INPUT_MAX])
{
    memset(bytes, 0, INPUT_MAX);
    enum target target = (enum target)roll(TARGETS);
    bytes[0] = (uint8_t)target;
    size_t size = target == NAMES ? 1 + sizeof(dsmObjName) : 1 + strlen(SEEDS[target]);
    memcpy(bytes + 1, SEEDS[target], strlen(SEEDS[target]));
    if (target == NAMES) { /* each part from empty to too long */
        dsmObjName *name = (dsmObjName *)(void *)(bytes + 1);
        memset(name->fs + 1, 'f', roll(2) ? roll(20) : sizeof name->fs - 1);
        memset(name->hl, '/', roll(2) ? roll(20) : sizeof name->hl);
        memset(name->ll, '/', roll(2) ? roll(20) : sizeof name->ll);
        name->objType = (dsUint8_t)roll(4);
    }
    for (uint32_t changes = roll(6); changes > 0; changes--) {
        size_t at = 1 + roll((uint32_t)size);
        size_t length = 1 + roll(roll(4) ? 8 : 1500);
        switch (roll(6)) {
        case 0:
            size = at;
            break;
        case 1:
            bytes[at] = (uint8_t)roll(256);
            break;
        case 2:
            bytes[at] = (uint8_t)"\"'=*-. \t\r\n/?[\\0\xff"[roll(17)];
            break;
        case 3:
            memmove(bytes + at, bytes + at + 1, INPUT_MAX - at - 1);
            size -= size > 1;
            break;
        case 4: /* longer */
            length = size + length < INPUT_MAX ? length : 0;
            memmove(bytes + at + length, bytes + at, INPUT_MAX - at - length);
            memset(bytes + at, "ax*/. "[roll(6)], length);
            size += length;
            break;
        default: /* elsewhere */
            length = at + length < size ? length : 0;
            memmove(bytes + 1 + roll((uint32_t)(size - length)), bytes + at, length);
        }
        size = size < INPUT_MAX - 1 ? size : INPUT_MAX - 1;
    }
    return size;
}

static void begin(const char *path)
{
    snprintf(folder, sizeof folder, "%s", path);
    unsetenv("DSMI_CONFIG");
    unsetenv("DSMI_LOG");
    setenv("DSMI_DIR", folder, 1);
}
