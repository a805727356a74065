#include "archiver_tsm.h"
