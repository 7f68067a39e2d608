// Regular expressions over strings, by RE2.

#include <re2/re2.h>

#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/string/string_cpu.h"
#include "core/kernels/string/text.h"

namespace formwork {
namespace {

using Regex = std::shared_ptr<const re2::RE2>;

absl::StatusOr<Regex> Compile(const std::string& pattern) {
  auto regex = std::make_shared<re2::RE2>(pattern, re2::RE2::Quiet);
  if (regex->ok()) return regex;
  return InvalidArgument("Invalid pattern: ", pattern, ", error: ", regex->error());
}

absl::Status CheckScalar(absl::string_view what, const Tensor& tensor) {
  if (tensor.rank() == 0) return absl::OkStatus();
  return InvalidArgument(what, " must be scalar, but received ", tensor.shape().ToString());
}

absl::Status Replace(KernelContext& ctx, const re2::RE2& regex, const std::string& rewrite,
                     bool all) {
  const Tensor texts = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kString, texts.shape()));
  TextLooks looks;
  int64_t total = 0;
  for (int64_t i = 0; i < texts.num_elements(); ++i) {
    std::string text = texts.data<std::string>()[i];
    if (looks.CutBefore(text.size())) return WorkStatus();
    if (all) {
      re2::RE2::GlobalReplace(&text, regex, rewrite);
    } else {
      re2::RE2::Replace(&text, regex, rewrite);
    }
    total += static_cast<int64_t>(text.size());
    FORMWORK_RETURN_IF_ERROR(CheckTextSize(total));
    out->mutable_data<std::string>()[i] = std::move(text);
  }
  return absl::OkStatus();
}

absl::Status FullMatch(KernelContext& ctx, const re2::RE2& regex) {
  const Tensor texts = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kBool, texts.shape()));
  TextLooks looks;
  for (int64_t i = 0; i < texts.num_elements(); ++i) {
    const std::string& text = texts.data<std::string>()[i];
    if (looks.CutBefore(text.size())) return WorkStatus();
    out->mutable_data<bool>()[i] = re2::RE2::FullMatch(text, regex);
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeStaticReplace(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const std::string pattern, init.attrs().Get<std::string>("pattern"));
  FORMWORK_ASSIGN_OR_RETURN(std::string rewrite, init.attrs().Get<std::string>("rewrite"));
  FORMWORK_ASSIGN_OR_RETURN(const bool all, init.attrs().Get<bool>("replace_global"));
  FORMWORK_ASSIGN_OR_RETURN(Regex regex, Compile(pattern));
  return KernelFn([regex = std::move(regex), rewrite = std::move(rewrite),
                   all](KernelContext& ctx) { return Replace(ctx, *regex, rewrite, all); });
}

absl::StatusOr<KernelFn> MakeReplace(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool all, init.attrs().Get<bool>("replace_global"));
  return KernelFn([all](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckScalar("Pattern", ctx.input(1)));
    FORMWORK_RETURN_IF_ERROR(CheckScalar("Rewrite", ctx.input(2)));
    FORMWORK_ASSIGN_OR_RETURN(const Regex regex, Compile(ctx.input(1).scalar<std::string>()));
    const std::string rewrite = ctx.input(2).scalar<std::string>();
    return Replace(ctx, *regex, rewrite, all);
  });
}

absl::StatusOr<KernelFn> MakeStaticFullMatch(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const std::string pattern, init.attrs().Get<std::string>("pattern"));
  FORMWORK_ASSIGN_OR_RETURN(Regex regex, Compile(pattern));
  return KernelFn(
      [regex = std::move(regex)](KernelContext& ctx) { return FullMatch(ctx, *regex); });
}

absl::StatusOr<KernelFn> MakeFullMatch(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckScalar("Pattern", ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(const Regex regex, Compile(ctx.input(1).scalar<std::string>()));
    return FullMatch(ctx, *regex);
  });
}

}  // namespace

void AddStringRegexCpuKernels(KernelRegistry& registry) {
  registry.Add("StaticRegexReplace", MakeStaticReplace);
  registry.Add("RegexReplace", MakeReplace);
  registry.Add("StaticRegexFullMatch", MakeStaticFullMatch);
  registry.Add("RegexFullMatch", MakeFullMatch);
}

}  // namespace formwork
