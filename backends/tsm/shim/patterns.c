#include "patterns.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "text_file.h"

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

static dsInt16_t check_pattern(const char *pattern)
{
    if (strlen(pattern) > PATTERN_MAX || strpbrk(pattern, "[]\\")) {
        return DSM_RC_PATTERN_TOO_COMPLEX;
    }
    if (*pattern != '/') {
        return DSM_RC_NO_STARTING_DELIMITER;
    }
    for (const char *dots = strstr(pattern, "..."); dots; dots = strstr(dots + 3, "...")) {
        if (!is_folders(pattern, (size_t)(dots - pattern))) {
            return DSM_RC_NEEDED_DIR_DELIMITER;
        }
    }
    return DSM_RC_OK;
}

static dsInt16_t add_rule(struct rules *rules, char *line)
{
    bool is_closed[4];
    char *kind = next_word(&line, &is_closed[0]);
    char *pattern = next_word(&line, &is_closed[1]);
    char *class_name = next_word(&line, &is_closed[2]);
    bool is_over = next_word(&line, &is_closed[3]) == NULL;
    bool is_include = strcasecmp(kind, "include") == 0 || strcasecmp(kind, "include.archive") == 0;
    bool is_exclude = strcasecmp(kind, "exclude") == 0 || strcasecmp(kind, "exclude.archive") == 0;
    if (!is_closed[0] || !is_closed[1] || !is_closed[2]) {
        return DSM_RC_UNMATCHED_QUOTE;
    }
    if (!pattern || !is_over || !(is_include || (is_exclude && !class_name)) ||
        (class_name && strlen(class_name) > DSM_MAX_MC_NAME_LENGTH)) {
        return DSM_RC_INVALID_OPT;
    }
    dsInt16_t code = check_pattern(pattern);
    if (code) {
        return code;
    }
    struct rule *rule = calloc(1, sizeof *rule + strlen(pattern) + 1);
    if (!rule) {
        return DSM_RC_NO_MEMORY;
    }
    rule->is_include = is_include;
    strcpy(rule->class_name, class_name ? class_name : "");
    strcpy(rule->pattern, pattern);
    rule->before = rules->last;
    rules->last = rule;
    return DSM_RC_OK;
}

dsInt16_t rules_load(struct rules *rules, const char *path)
{
    struct text_file file;
    if (!text_file_open(&file, path)) {
        return DSM_RC_NO_INCLEXCL_FILE;
    }
    dsInt16_t code = DSM_RC_OK;
    for (char *line = text_file_line(&file); line && !code; line = text_file_line(&file)) {
        code = add_rule(rules, line);
    }
    text_file_close(&file);
    return code;
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
    for (const struct rule *rule = rules->last; rule; rule = rule->before) {
        if (pattern_matches(rule->pattern, path)) {
            *class_name = rule->class_name;
            return rule->is_include ? VERDICT_INCLUDED : VERDICT_EXCLUDED;
        }
    }
    return VERDICT_DEFAULT;
}
