#include "names.h"

#include <string.h>

static bool has_wildcard(const char *text, size_t length)
{
    return memchr(text, '*', length) || memchr(text, '?', length);
}

dsInt16_t check_name_pattern(const dsmObjName *name, struct name_lengths *lengths)
{
    if (!name) {
        return DSM_RC_NULL_OBJNAME;
    }
    if (name->objType != DSM_OBJ_FILE && name->objType != DSM_OBJ_DIRECTORY && name->objType != DSM_OBJ_WILDCARD &&
        name->objType != DSM_OBJ_ANY_TYPE) {
        return DSM_RC_INVALID_OBJTYPE;
    }
    dsInt16_t code = check_space(name->fs, &lengths->fs);
    if (code) {
        return code;
    }
    if (is_too_long(name->hl, DSM_MAX_HL_LENGTH, &lengths->hl)) {
        return DSM_RC_HL_TOOLONG;
    }
    return is_too_long(name->ll, DSM_MAX_LL_LENGTH, &lengths->ll) ? DSM_RC_LL_TOOLONG : DSM_RC_OK;
}

dsInt16_t check_name(const dsmObjName *name, struct name_lengths *lengths)
{
    dsInt16_t code = check_name_pattern(name, lengths);
    if (code) {
        return code;
    }
    if (name->objType != DSM_OBJ_FILE && name->objType != DSM_OBJ_DIRECTORY) {
        return DSM_RC_INVALID_OBJTYPE;
    }
    if (has_wildcard(name->fs, lengths->fs) || has_wildcard(name->hl, lengths->hl) ||
        has_wildcard(name->ll, lengths->ll)) {
        return DSM_RC_WILDCHAR_NOTALLOWED;
    }
    if (lengths->hl > 0 && name->hl[0] != '/') {
        return DSM_RC_INVALID_HLNAME;
    }
    if (lengths->ll > 0 && name->ll[0] != '/') {
        return DSM_RC_INVALID_LLNAME;
    }
    return lengths->hl + lengths->ll > 0 ? DSM_RC_OK : DSM_RC_INVALID_OBJNAME;
}

dsInt16_t check_space(const char *name, size_t *length)
{
    if (!name) {
        return DSM_RC_NULL_FSNAME;
    }
    if (is_too_long(name, DSM_MAX_FSNAME_LENGTH, length)) {
        return DSM_RC_FILESPACE_TOOLONG;
    }
    return name[0] == '/' ? DSM_RC_OK : DSM_RC_INVALID_FSNAME;
}

bool is_too_long(const char *text, size_t length_max, size_t *length)
{
    *length = text ? strnlen(text, length_max + 1) : 0;
    return *length > length_max;
}
