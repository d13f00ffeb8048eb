// Checks of the operations that an attention kernel reads and writes through.
#pragma once

#include "waveattn/attention/problem.h"
#include "waveattn/iop/check.h"

namespace waveattn::detail {

// Throws InvalidArgument, naming the argument, unless q, k, v and o cover the shape.
template <class Q, class K, class V, class O>
void check_operations(const Q& q, const K& k, const V& v, const O& o, const AttentionShape& shape) {
    iop::check_covers("q", q, shape.batch, shape.heads_q, shape.q_len, shape.head_dim);
    iop::check_covers("k", k, shape.batch, shape.heads_kv, shape.kv_len, shape.head_dim);
    iop::check_covers("v", v, shape.batch, shape.heads_kv, shape.kv_len, shape.head_dim_v);
    iop::check_covers("o", o, shape.batch, shape.heads_q, shape.q_len, shape.head_dim_v);
}

} // namespace waveattn::detail
