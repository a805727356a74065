#include "patterns.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PATTERN_MAX 1023
#define NAME_SIZE (sizeof(((dsmObjName *)0)->fs) + sizeof(((dsmObjName *)0)->hl) + sizeof(((dsmObjName *)0)->ll))

struct rule {
    struct rule *before; /* in the list */
    bool is_include;
    char class_name[DSM_MAX_MC_NAME_LENGTH + 1];
    char pattern[];
};

static bool is_folders(const char *pattern, size_t at)
{
    return strncmp(pattern + at, "...", 3) == 0 && at > 0 && pattern[at - 1] == '/' &&
           (pattern[at + 3] == '/' || pattern[at + 3] == '\0');
}

/* `reached[i]`: the name read so far may end before pattern[i]. Parts of the pattern that may match nothing are
 * passed at once. */
static void reach(const char *pattern, bool *reached, size_t at)
{
    for (; !reached[at]; at++) {
        reached[at] = true;
        if (is_folders(pattern, at)) {
            at += pattern[at + 3] == '/' ? 3 : 2; /* matches no folder, and then no delimiter after it either */
        } else if (pattern[at] != '*') {
            return;
        }
    }
}

/* `from` to `to` is the inside of [...]: characters, and ranges like a-z. A delimiter is in no set. */
static bool is_in_set(const char *from, const char *to, char character)
{
    for (; from < to && character != '/'; from++) {
        bool is_range = to - from > 2 && from[1] == '-';
        if (is_range ? from[0] <= character && character <= from[2] : *from == character) {
            return true;
        }
        from += is_range ? 2 : 0;
    }
    return false;
}

bool pattern_matches(const char *pattern, const char *name)
{
    size_t length = strlen(pattern);
    if (length > PATTERN_MAX) {
        return false;
    }
    bool here[PATTERN_MAX + 1] = {false};
    reach(pattern, here, 0);
    for (; *name; name++) {
        bool next[PATTERN_MAX + 1] = {false};
        for (size_t at = 0; at < length; at++) {
            if (!here[at]) {
                continue;
            }
            if (is_folders(pattern, at)) {
                next[at] = true;
                if (*name == '/' || pattern[at + 3] == '\0') {
                    reach(pattern, next, at + 3 + (pattern[at + 3] == '/'));
                }
            } else if (pattern[at] == '*') {
                if (*name != '/') {
                    reach(pattern, next, at);
                }
            } else if (pattern[at] == '[') {
                size_t end = at + strcspn(pattern + at, "]");
                if (pattern[end] && is_in_set(pattern + at + 1, pattern + end, *name)) {
                    reach(pattern, next, end + 1);
                }
            } else if (pattern[at] == *name || (pattern[at] == '?' && *name != '/')) {
                reach(pattern, next, at + 1);
            }
        }
        memcpy(here, next, sizeof here);
    }
    return here[length];
}

/* Returns the next word of a line, quoted or not, and moves *line after it; NULL if there is none. */
static char *next_word(char **line, bool *is_closed)
{
    char *word = *line + strspn(*line, " \t");
    *is_closed = true;
    if (*word == '\0') {
        return NULL;
    }
    bool is_quoted = *word == '"' || *word == '\'';
    const char ends[] = {is_quoted ? *word : ' ', is_quoted ? '\0' : '\t', '\0'};
    word += is_quoted;
    size_t length = strcspn(word, ends);
    *is_closed = !is_quoted || word[length];
    *line = word + length + (word[length] != '\0');
    word[length] = '\0';
    return word;
}

static dsInt16_t check_pattern(const char *pattern, const char **why)
{
    if (strlen(pattern) > PATTERN_MAX || strchr(pattern, '\\')) {
        *why = "has a backslash, or more than 1023 bytes";
        return DSM_RC_PATTERN_TOO_COMPLEX;
    }
    for (const char *at = strchr(pattern, '['); at; at = strchr(at, '[')) {
        at = strchr(at, ']');
        if (!at) {
            *why = "has [ without ]";
            return DSM_RC_PATTERN_TOO_COMPLEX;
        }
    }
    if (*pattern != '/') {
        *why = "must begin with / and the name of a file space";
        return DSM_RC_NO_STARTING_DELIMITER;
    }
    for (const char *dots = strstr(pattern, "..."); dots; dots = strstr(dots + 3, "...")) {
        if (!is_folders(pattern, (size_t)(dots - pattern))) {
            *why = "must have / before and after ...";
            return DSM_RC_NEEDED_DIR_DELIMITER;
        }
    }
    return DSM_RC_OK;
}

/* Makes one slash of several. */
static void collapse(char *path)
{
    char *to = path;
    for (const char *from = path; *from; from++) {
        if (*from != '/' || from[1] != '/') {
            *to++ = *from;
        }
    }
    *to = '\0';
}

/* The options that make a list, from "Include options" and "Exclude options" in IBM's manual of the client (8.2.2).
 * dsmBindMC there: "The Exclude list can prevent objects from a backup but not from an archive"; only EXCLUDE.ARCHIVE
 * concerns archives. INCLUDE concerns both. */
enum effect { NONE, INCLUDES, EXCLUDES };
static const struct {
    const char *name;
    enum effect effect; /* on archives */
} KINDS[] = {
    {"include", INCLUDES},
    {"include.archive", INCLUDES},
    {"exclude.archive", EXCLUDES},
    {"include.attribute.symlink", NONE},
    {"include.backup", NONE},
    {"include.compression", NONE},
    {"include.dedup", NONE},
    {"include.encrypt", NONE},
    {"include.file", NONE},
    {"include.fs", NONE},
    {"include.fs.nas", NONE},
    {"include.image", NONE},
    {"include.snapdiff", NONE},
    {"include.vm", NONE},
    {"include.vmdisk", NONE},
    {"exclude", NONE},
    {"exclude.attribute.symlink", NONE},
    {"exclude.backup", NONE},
    {"exclude.compression", NONE},
    {"exclude.dedup", NONE},
    {"exclude.dir", NONE},
    {"exclude.encrypt", NONE},
    {"exclude.file", NONE},
    {"exclude.file.backup", NONE},
    {"exclude.fs", NONE},
    {"exclude.fs.nas", NONE},
    {"exclude.image", NONE},
    {"exclude.spacemgmt", NONE},
    {"exclude.vmdisk", NONE},
};
#define KIND_COUNT (sizeof KINDS / sizeof *KINDS)

/* Returns KIND_COUNT if the line is no rule. */
static size_t kind_of(const char *line)
{
    size_t length = strcspn(line, " \t"), kind = 0;
    while (kind < KIND_COUNT &&
           (strlen(KINDS[kind].name) != length || strncasecmp(KINDS[kind].name, line, length) != 0)) {
        kind++;
    }
    return kind;
}

bool is_rule(const char *line)
{
    return kind_of(line) < KIND_COUNT;
}

dsInt16_t rules_add(struct rules *rules, char *line, const char **why)
{
    enum effect effect = KINDS[kind_of(line)].effect;
    if (effect == NONE) {
        return DSM_RC_OK;
    }
    bool is_closed[4];
    next_word(&line, &is_closed[0]);
    char *pattern = next_word(&line, &is_closed[1]);
    char *class_name = next_word(&line, &is_closed[2]);
    bool is_over = next_word(&line, &is_closed[3]) == NULL;
    if (!is_closed[1] || !is_closed[2]) {
        *why = "lacks a quote";
        return DSM_RC_UNMATCHED_QUOTE;
    }
    if (!pattern || !is_over || (class_name && effect == EXCLUDES) ||
        (class_name && strlen(class_name) > DSM_MAX_MC_NAME_LENGTH)) {
        *why = effect == EXCLUDES ? "must have one pattern" : "must have one pattern, and may have one class";
        return DSM_RC_INVALID_OPT;
    }
    dsInt16_t code = check_pattern(pattern, why);
    if (code) {
        return code;
    }
    collapse(pattern);
    struct rule *rule = calloc(1, sizeof *rule + strlen(pattern) + 1);
    if (!rule) {
        *why = "no memory is left";
        return DSM_RC_NO_MEMORY;
    }
    rule->is_include = effect == INCLUDES;
    strcpy(rule->class_name, class_name ? class_name : "");
    strcpy(rule->pattern, pattern);
    rule->before = rules->last;
    rules->last = rule;
    return DSM_RC_OK;
}

void rules_free(struct rules *rules)
{
    while (rules->last) {
        struct rule *rule = rules->last;
        rules->last = rule->before;
        free(rule);
    }
}

enum verdict rules_decide(const struct rules *rules, const dsmObjName *name, const char **class_name)
{
    if (!rules->last) {
        return VERDICT_DEFAULT;
    }
    char path[NAME_SIZE];
    stpcpy(stpcpy(stpcpy(path, name->fs), name->hl), name->ll);
    collapse(path); /* file space "/", or high-level name "/" */
    for (const struct rule *rule = rules->last; rule; rule = rule->before) {
        if (pattern_matches(rule->pattern, path)) {
            *class_name = rule->class_name;
            return rule->is_include ? VERDICT_INCLUDED : VERDICT_EXCLUDED;
        }
    }
    return VERDICT_DEFAULT;
}
