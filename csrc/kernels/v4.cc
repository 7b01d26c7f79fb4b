#define RINGTREE_ISA isa_v4
#include "kernels/body.h"
