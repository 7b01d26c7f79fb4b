#define RINGTREE_ISA isa_base
#include "kernels_body.h"
