#include "core/kernels/gemm/onednn_problem.h"

#include "core/base/status.h"
#include "core/kernels/gemm/onednn_setup.h"

namespace formwork {
namespace {

// Of one problem: more threads seldom run it at once.
constexpr size_t kMostSpare = 4;

}  // namespace

const dnnl::engine& OnednnEngine() {
  static const dnnl::engine engine = [] {
    // Our caches are bounded and can be emptied; oneDNN's own would keep what leaves them.
    dnnl::set_primitive_cache_capacity(0);
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

OnednnPrimitive::OnednnPrimitive(dnnl::primitive primitive, std::vector<Argument> arguments)
    : primitive_(std::move(primitive)), arguments_(std::move(arguments)) {}

OnednnPrimitive& OnednnPrimitive::operator=(OnednnPrimitive&& other) {
  primitive_ = std::move(other.primitive_);
  arguments_ = std::move(other.arguments_);
  return *this;
}

OnednnPrimitive::~OnednnPrimitive() {
  for (const Arguments& arguments : spare_) Destroy(arguments);
}

dnnl_status_t OnednnPrimitive::Make(Arguments* made) const {
  made->reserve(arguments_.size());
  for (const Argument& argument : arguments_) {
    dnnl_exec_arg_t& given = made->emplace_back(dnnl_exec_arg_t{argument.name, nullptr});
    const dnnl_status_t status = dnnl_memory_create(&given.memory, &argument.desc.data,
                                                    OnednnEngine().get(), DNNL_MEMORY_NONE);
    if (status != dnnl_success) return status;
  }
  return dnnl_success;
}

void OnednnPrimitive::Destroy(const Arguments& arguments) {
  for (const dnnl_exec_arg_t& argument : arguments) dnnl_memory_destroy(argument.memory);
}

absl::Status OnednnPrimitive::Run(std::initializer_list<const void*> data,
                                  absl::string_view what) const {
  SetUpOnednn();
  // A stream of the CPU engine is only a handle; one per thread keeps execute() free of locks.
  thread_local dnnl::stream stream(OnednnEngine());
  Arguments arguments;
  {
    absl::MutexLock lock(&mutex_);
    if (!spare_.empty()) {
      arguments = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  dnnl_status_t status = arguments.empty() ? Make(&arguments) : dnnl_success;
  const bool whole = status == dnnl_success;
  size_t k = 0;
  for (const void* const at : data) {
    if (status != dnnl_success) break;
    status = dnnl_memory_set_data_handle(arguments[k++].memory, const_cast<void*>(at));
  }
  if (status == dnnl_success) {
    status = dnnl_primitive_execute(primitive_.get(), stream.get(),
                                    static_cast<int>(arguments.size()), arguments.data());
  }
  if (whole) {
    absl::MutexLock lock(&mutex_);
    if (spare_.size() < kMostSpare) spare_.push_back(std::move(arguments));
  }
  Destroy(arguments);
  if (status == dnnl_success) return absl::OkStatus();
  if (status == dnnl_out_of_memory) return ResourceExhausted("oneDNN ", what, ": out of memory");
  return Internal("oneDNN ", what, ": status=", static_cast<int>(status));
}

}  // namespace formwork
