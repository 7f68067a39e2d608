#include "core/kernels/gemm/bfloat_gemm.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/first_error.h"
#include "core/base/heap_count.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/gemm/onednn_problem.h"
#include "core/kernels/gemm/onednn_setup.h"
#include "core/kernels/isa.h"

namespace formwork {
namespace {

using dnnl::memory;

// Multiplications that are worth a task: 28 us at 600 Gflop/s.
constexpr double kTask = 1 << 23;
// Between two looks at the StopFlag: some ms.
constexpr double kPiece = 1 << 30;
// Parts end where AMX's tiles do.
constexpr int64_t kUnit = 64;

// A product, or the part of one that makes some rows, or columns, of c.
struct Problem {
  bool trans_a, trans_b;
  int64_t m, n, k;
  int64_t lda, ldb, ldc;

  bool operator==(const Problem&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const Problem& p) {
    return H::combine(std::move(h), p.trans_a, p.trans_b, p.m, p.n, p.k, p.lda, p.ldb, p.ldc);
  }
};

struct Compiled {
  Compiled() { CountHeap(kOnednnProblemBytes); }
  ~Compiled() { CountHeap(-kOnednnProblemBytes); }

  size_t scratch_bytes = 0;
  OnednnPrimitive product;
};

using Cache = OnednnCache<Problem, Compiled>;
Cache& Products() {
  static auto* const cache = new Cache;
  return *cache;
}

memory::desc Matrix(int64_t rows, int64_t columns, bool transposed, int64_t ld) {
  return {{rows, columns},
          memory::data_type::bf16,
          transposed ? memory::dims{1, ld} : memory::dims{ld, 1}};
}

absl::StatusOr<Cache::Value> Compile(const Problem& p) {
  if (Cache::Value found = Products().Find(p); found != nullptr) return found;
  try {
    SetUpOnednn();
    auto made = std::make_shared<Compiled>();
    const memory::desc a = Matrix(p.m, p.k, p.trans_a, p.lda);
    const memory::desc b = Matrix(p.k, p.n, p.trans_b, p.ldb);
    const memory::desc c = Matrix(p.m, p.n, false, p.ldc);
    // The caller brings the scratch: the library's own belongs to the thread that compiled.
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::matmul::primitive_desc product({a, b, c}, attr, OnednnEngine());
    made->scratch_bytes = product.scratchpad_desc().get_size();
    made->product = {dnnl::matmul(product),
                     {{DNNL_ARG_SRC, a},
                      {DNNL_ARG_WEIGHTS, b},
                      {DNNL_ARG_DST, c},
                      {DNNL_ARG_SCRATCHPAD, product.scratchpad_desc()}}};
    Products().Insert(p, made);
    return made;
  } catch (const dnnl::error& error) {
    return Unimplemented("oneDNN product: ", error.what());
  }
}

absl::Status Run(Allocator& allocator, const Problem& p, const bfloat16* a, const bfloat16* b,
                 bfloat16* c) {
  FORMWORK_ASSIGN_OR_RETURN(const Cache::Value compiled, Compile(p));
  const auto bytes = std::max<int64_t>(static_cast<int64_t>(compiled->scratch_bytes), 1);
  FORMWORK_ASSIGN_OR_RETURN(Tensor scratch,
                            Tensor::Allocate(allocator, DType::kUint8, Shape({bytes})));
  return compiled->product.Run({a, b, c, scratch.raw()}, "product");
}

}  // namespace

bool HasBfloatProducts() {
  static const bool has = [] {
    SetUpOnednn();  // Says first how far it may go.
    return HostIsa() == Isa::kAvx512 &&
           (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) ==
               dnnl_cpu_isa_avx512_core_bf16;
  }();
  return has;
}

absl::Status BfloatGemm(Allocator& allocator, bool trans_a, bool trans_b, int64_t m, int64_t n,
                        int64_t k, const bfloat16* a, const bfloat16* b, bfloat16* c) {
  const Problem whole = {trans_a, trans_b, m, n, k, trans_a ? m : k, trans_b ? k : n, n};
  const double work = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const bool by_rows = m > n;
  const int64_t extent = by_rows ? m : n;
  const int64_t units = (extent + kUnit - 1) / kUnit;
  const auto tasks = static_cast<int64_t>(std::min(work / kTask, double{1 << 20}));
  const auto stops = static_cast<int64_t>(std::min(work / kPiece, double{1 << 20})) + 1;
  const int64_t parts =
      std::clamp<int64_t>(std::max(std::min<int64_t>(tasks, ParallelThreads()), stops), 1, units);
  FirstError error;
  ParallelFor(parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last && !WorkIsCut(); ++i) {
      const int64_t begin = units * i / parts * kUnit;
      const int64_t end = std::min(units * (i + 1) / parts * kUnit, extent);
      Problem part = whole;
      if (by_rows) {
        part.m = end - begin;
        error.Note(Run(allocator, part, a + begin * (trans_a ? 1 : whole.lda), b, c + begin * n));
      } else {
        part.n = end - begin;
        error.Note(Run(allocator, part, a, b + begin * (trans_b ? whole.ldb : 1), c + begin));
      }
    }
  });
  return error.Take();
}

void ForgetBfloatProducts() { Products().Clear(); }

}  // namespace formwork
