/* What this library tells beyond the API. A program that is to run with other libraries, too, has to look for it. */
#ifndef ARCHIVER_TSM_MORE_H
#define ARCHIVER_TSM_MORE_H

#include "archiver_tsm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether what the session sends is encrypted on its way. Any state. Codes: OK, INVALID_PARM for NULL, and those that any
 * call with a handle may give. */
extern __attribute__((visibility("default"))) dsInt16_t archiverQueryEncryption(dsUint32_t dsmHandle,
                                                                                dsBool_t *isEncryptedP);

#ifdef __cplusplus
}
#endif

#endif
