/* Functions beyond the API. A program that also runs with other libraries must check whether they exist. */
#ifndef ARCHIVER_TSM_MORE_H
#define ARCHIVER_TSM_MORE_H

#include "archiver_tsm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns whether the session's connection is encrypted. Any state. Codes: OK, INVALID_PARM for NULL, and those that
 * any call with a handle may return. */
extern __attribute__((visibility("default"))) dsInt16_t archiverQueryEncryption(dsUint32_t dsmHandle,
                                                                                dsBool_t *isEncryptedP);

#ifdef __cplusplus
}
#endif

#endif
