#include "core/kernels/gemm/onednn_problem.h"

#include "core/base/status.h"
#include "core/kernels/gemm/onednn_setup.h"

namespace formwork {

const dnnl::engine& OnednnEngine() {
  static const dnnl::engine engine = [] {
    // Our caches are bounded and can be emptied; oneDNN's own would keep what leaves them.
    dnnl::set_primitive_cache_capacity(0);
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

OnednnArguments::~OnednnArguments() {
  for (int k = 0; k < count_; ++k) dnnl_memory_destroy(arguments_[k].memory);
}

OnednnArguments& OnednnArguments::Add(int name, const dnnl::memory::desc& desc, const void* data) {
  dnnl_exec_arg_t& argument = arguments_[count_];
  const dnnl_status_t made = dnnl_memory_create(&argument.memory, &desc.data, OnednnEngine().get(),
                                                const_cast<void*>(data));
  argument.arg = name;
  if (made == dnnl_success) {
    ++count_;
  } else if (status_ == dnnl_success) {
    status_ = made;
  }
  return *this;
}

absl::Status OnednnArguments::Execute(const dnnl::primitive& primitive,
                                      absl::string_view what) const {
  SetUpOnednn();
  // A stream of the CPU engine is only a handle; one per thread keeps execute() free of locks.
  thread_local dnnl::stream stream(OnednnEngine());
  dnnl_status_t status = status_;
  if (status == dnnl_success) {
    status = dnnl_primitive_execute(primitive.get(), stream.get(), count_, arguments_);
  }
  if (status == dnnl_success) return absl::OkStatus();
  if (status == dnnl_out_of_memory) return ResourceExhausted("oneDNN ", what, ": out of memory");
  return Internal("oneDNN ", what, ": status=", static_cast<int>(status));
}

}  // namespace formwork
