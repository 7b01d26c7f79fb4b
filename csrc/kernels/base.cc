#define RINGTREE_ISA isa_base
#include "kernels/body.h"
