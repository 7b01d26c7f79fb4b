#define RINGTREE_ISA isa_v3
#include "kernels/body.h"
