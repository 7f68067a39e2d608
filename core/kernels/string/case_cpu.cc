// Strings in upper and lower case.

#include <unicode/casemap.h>
#include <unicode/utf8.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/string/string_cpu.h"
#include "core/kernels/string/text.h"
#include "core/ops/string.h"

namespace formwork {
namespace {

struct Lower {
  static char OfByte(char c) { return absl::ascii_tolower(static_cast<unsigned char>(c)); }
  static int32_t OfUtf8(absl::string_view text, char* to, int32_t room, UErrorCode& error) {
    return icu::CaseMap::utf8ToLower("", 0, text.data(), static_cast<int32_t>(text.size()), to,
                                     room, nullptr, error);
  }
};

struct Upper {
  static char OfByte(char c) { return absl::ascii_toupper(static_cast<unsigned char>(c)); }
  static int32_t OfUtf8(absl::string_view text, char* to, int32_t room, UErrorCode& error) {
    return icu::CaseMap::utf8ToUpper("", 0, text.data(), static_cast<int32_t>(text.size()), to,
                                     room, nullptr, error);
  }
};

// Everything but ASCII is left alone: TensorFlow's default.
template <typename Case>
void ChangeBytes(const std::string& from, std::string& to) {
  to = from;
  ForBlocks(static_cast<int64_t>(to.size()), kTextBlock, [&](int64_t begin, int64_t end) {
    std::transform(to.begin() + begin, to.begin() + end, to.begin() + begin, Case::OfByte);
  });
}

// The text with U+FFFD for what is not UTF-8, which ICU would leave as it is.
absl::StatusOr<std::string> Repair(const std::string& text) {
  std::string repaired;
  const int32_t size = static_cast<int32_t>(text.size());
  int32_t begin = 0;
  for (int32_t at = 0; at < size; begin = at) {
    if (WorkIsCutAt(at)) return WorkStatus();
    UChar32 point;
    U8_NEXT(text.data(), at, size, point);
    if (point < 0) {
      repaired += "\xef\xbf\xbd";
    } else {
      repaired.append(text, static_cast<size_t>(begin), static_cast<size_t>(at - begin));
    }
  }
  return repaired;
}

// By Unicode's rules for no language in particular. TensorFlow forgets what follows a byte of 0.
template <typename Case>
absl::Status ChangeUtf8(absl::string_view from, std::string& to) {
  while (!from.empty()) {
    if (WorkIsCut()) return WorkStatus();
    // What a letter becomes may depend on its word, and on no other.
    const absl::string_view block = from.substr(0, from.find(' ', size_t{kTextBlock}));
    const size_t done = to.size();
    size_t room = block.size() + 16;
    while (true) {
      to.resize(done + room);
      UErrorCode error = U_ZERO_ERROR;
      const int32_t size = Case::OfUtf8(block, to.data() + done, static_cast<int32_t>(room), error);
      if (error == U_BUFFER_OVERFLOW_ERROR && static_cast<size_t>(size) > room) {
        room = static_cast<size_t>(size);
        continue;
      }
      if (U_FAILURE(error)) return Internal("ICU: ", u_errorName(error));
      to.resize(done + static_cast<size_t>(size));
      break;
    }
    FORMWORK_RETURN_IF_ERROR(CheckTextSize(static_cast<int64_t>(to.size())));
    from.remove_prefix(block.size());
  }
  return absl::OkStatus();
}

template <typename Case>
absl::StatusOr<KernelFn> MakeCaseChange(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const CaseAttrs attrs, CaseAttrs::FromAttrs(init.attrs()));
  return KernelFn([utf8 = attrs.utf8](KernelContext& ctx) -> absl::Status {
    Tensor input = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output,
                              ctx.AllocateOutput(0, DType::kString, input.shape()));
    TextLooks looks;
    for (int64_t i = 0; i < input.num_elements(); ++i) {
      const std::string& text = input.data<std::string>()[i];
      if (looks.CutBefore(text.size())) return WorkStatus();
      std::string& to = output->mutable_data<std::string>()[i];
      if (!utf8) {
        ChangeBytes<Case>(text, to);
        continue;
      }
      FORMWORK_RETURN_IF_ERROR(CheckTextSize(static_cast<int64_t>(text.size())));
      FORMWORK_ASSIGN_OR_RETURN(const std::string repaired, Repair(text));
      FORMWORK_RETURN_IF_ERROR(ChangeUtf8<Case>(repaired, to));
    }
    return absl::OkStatus();
  });
}

}  // namespace

void AddStringCaseCpuKernels(KernelRegistry& registry) {
  registry.Add("StringLower", MakeCaseChange<Lower>);
  registry.Add("StringUpper", MakeCaseChange<Upper>);
}

}  // namespace formwork
