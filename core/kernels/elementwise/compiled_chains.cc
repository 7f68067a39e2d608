#include "core/kernels/elementwise/compiled_chains.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"

#if defined(__x86_64__)
#include <asmjit/x86.h>
#endif

namespace formwork {

#if defined(__x86_64__)
namespace {

using asmjit::x86::Gp;
namespace Inst = asmjit::x86::Inst;
using asmjit::x86::Mem;
using asmjit::x86::Vec;
namespace x86 = asmjit::x86;

// As many vectors as hide what an instruction takes until its result can be read: four cycles, and
// two of them a cycle.
constexpr int kMostVectors = 8;
// Bounds what compiling takes, and the code.
constexpr size_t kMostInstructions = 512;
constexpr size_t kMostEmitted = 2048;

asmjit::JitRuntime& Runtime() {
  // Written by one mapping and executed by another: no page is both.
  static asmjit::JitRuntime* const runtime = [] {
    asmjit::JitAllocator::CreateParams params;
    params.options = asmjit::JitAllocatorOptions::kUseDualMapping;
    return new asmjit::JitRuntime(&params);
  }();
  return *runtime;
}

// Registers of the vectors that instructions make, by the number of one vector's: freed after the
// last instruction that reads it.
struct Places {
  std::vector<int> of;  // By instruction.
  int count = 0;
};

class FailureFlag : public asmjit::ErrorHandler {
 public:
  void handleError(asmjit::Error, const char*, asmjit::BaseEmitter*) override { failed = true; }
  bool failed = false;
};

class Emitter {
 public:
  Emitter(asmjit::CodeHolder* code, DType dtype, Isa isa,
          absl::Span<const CompiledChains::Instruction> instructions,
          absl::Span<const bool> is_splat)
      : a_(code),
        wide_(isa == Isa::kAvx512),
        double_(dtype == DType::kDouble),
        bytes_(wide_ ? 64 : 32),
        instructions_(instructions),
        is_splat_(is_splat) {
    for (size_t i = 0; i < instructions.size(); ++i) made_by_[instructions[i].value] = i;
  }

  // False where registers do not suffice.
  bool Emit() {
    const Places places = AssignPlaces();
    const int room = FirstTemporary();
    if (places.count > room) return false;
    const int most = static_cast<int>(kMostEmitted / instructions_.size());
    const int vectors =
        std::max(1, std::min({kMostVectors, room / std::max(1, places.count), most}));
    const asmjit::Label whole = a_.newLabel(), rest = a_.newLabel(), end = a_.newLabel();
    constants_ = a_.newLabel();
    // n becomes the bytes of each operand; last_, where the last whole round begins.
    a_.shl(bytes_left_, double_ ? 3 : 2);
    a_.xor_(at_.r32(), at_.r32());
    GoWhereNan(rest);
    a_.lea(last_, x86::ptr(bytes_left_, -vectors * bytes_));
    a_.cmp(at_, last_);
    a_.jg(rest);
    a_.align(asmjit::AlignMode::kCode, 32);
    a_.bind(whole);
    Body(places, vectors, /*masked=*/false);
    a_.add(at_, vectors * bytes_);
    a_.cmp(at_, last_);
    a_.jle(whole);
    a_.bind(rest);
    a_.cmp(at_, bytes_left_);
    a_.jge(end);
    MakeMask();
    Body(places, 1, /*masked=*/true);
    a_.add(at_, bytes_);
    a_.jmp(rest);
    a_.bind(end);
    a_.vzeroupper();
    a_.ret();
    EmbedConstants();
    return true;
  }

 private:
  // Constants, each in kTileScalarBytes of its own.
  enum Constant { kSignBit, kOtherBits, kOne, kSix, kIndices, kNumConstants };

  // Those below are for values.
  int FirstTemporary() const { return wide_ ? 30 : 12; }
  Vec Register(int id) const {
    return wide_ ? Vec(x86::zmm(static_cast<uint32_t>(id)))
                 : Vec(x86::ymm(static_cast<uint32_t>(id)));
  }
  Vec Temporary(int k) const { return Register(FirstTemporary() + k); }
  // With AVX2; k1 and k2 else.
  static Vec Mask() { return x86::ymm15; }
  static Vec Unordered() { return x86::ymm14; }
  Mem OfConstant(Constant which) const {
    return x86::ptr(constants_, static_cast<int32_t>(which * kTileScalarBytes));
  }
  Inst::Id Of(Inst::Id single, Inst::Id of_double) const { return double_ ? of_double : single; }
#define FORMWORK_BOTH(Name) Of(Inst::kId##Name##s, Inst::kId##Name##d)

  Places AssignPlaces() const {
    std::vector<size_t> last_reader(instructions_.size());
    for (size_t i = 0; i < instructions_.size(); ++i) {
      last_reader[i] = i;
      for (int k = 0; k < NumOperands(i); ++k) {
        if (const auto maker = MakerOf(i, k)) last_reader[*maker] = i;
      }
    }
    Places places;
    places.of.resize(instructions_.size());
    std::vector<int> free;
    for (size_t i = 0; i < instructions_.size(); ++i) {
      // An operand's register may become the result's: it is written last.
      for (int k = 0; k < NumOperands(i); ++k) {
        const auto maker = MakerOf(i, k);
        const bool again = k == 1 && maker == MakerOf(i, 0);
        if (maker && !again && last_reader[*maker] == i) free.push_back(places.of[*maker]);
      }
      if (free.empty()) {
        places.of[i] = places.count++;
      } else {
        places.of[i] = free.back();
        free.pop_back();
      }
      if (last_reader[i] == i) free.push_back(places.of[i]);
    }
    return places;
  }

  int NumOperands(size_t i) const { return instructions_[i].is_unary ? 1 : 2; }
  std::optional<size_t> MakerOf(size_t i, int k) const {
    const auto found = made_by_.find(instructions_[i].operands[k]);
    if (found == made_by_.end()) return std::nullopt;
    return found->second;
  }

  // Whether each element of the vector at at_ is below the end.
  void MakeMask() {
    a_.mov(elements_, bytes_left_);
    a_.sub(elements_, at_);
    a_.shr(elements_, double_ ? 3 : 2);
    const Vec count = Temporary(0);
    a_.vmovq(count.xmm(), elements_);
    a_.emit(Of(Inst::kIdVpbroadcastd, Inst::kIdVpbroadcastq), count, count.xmm());
    const Inst::Id greater = Of(Inst::kIdVpcmpgtd, Inst::kIdVpcmpgtq);
    if (wide_) {
      a_.emit(greater, x86::k1, count, OfConstant(kIndices));
    } else {
      a_.emit(greater, Mask(), count, OfConstant(kIndices));
    }
  }

  // Whether whole rounds take it that no element of the second operand is NaN.
  bool IsFreeOfNan(size_t i) const {
    const CompiledChains::Instruction& instruction = instructions_[i];
    return (instruction.op == TileOp::kMaximum || instruction.op == TileOp::kMinimum) &&
           IsSplat(instruction.operands[1]);
  }
  // Masked rounds do all elements where one of those is NaN after all.
  void GoWhereNan(const asmjit::Label& rest) {
    std::vector<uint16_t> looked_at;
    for (size_t i = 0; i < instructions_.size(); ++i) {
      const uint16_t value = instructions_[i].operands[1];
      const bool again = std::find(looked_at.begin(), looked_at.end(), value) != looked_at.end();
      if (again || !IsFreeOfNan(i)) continue;
      looked_at.push_back(value);
      LoadPointer(x86::rax, value);
      const Vec element = Temporary(1).xmm();
      a_.emit(Of(Inst::kIdVmovss, Inst::kIdVmovsd), element, x86::ptr(x86::rax));
      a_.emit(Of(Inst::kIdVucomiss, Inst::kIdVucomisd), element, element);
      a_.jp(rest);
    }
  }

  void Body(const Places& places, int vectors, bool masked) {
    masked_ = masked;
    for (size_t i = 0; i < instructions_.size(); ++i) {
      const CompiledChains::Instruction& instruction = instructions_[i];
      // Where operands that lie in memory begin.
      const Gp pointers[2] = {x86::rax, x86::r9};
      for (int k = 0; k < NumOperands(i); ++k) {
        if (!MakerOf(i, k)) LoadPointer(pointers[k], instruction.operands[k]);
      }
      const bool takes_memory = !masked && TakesMemory(instruction.op);
      Vec second;
      for (int j = 0; j < vectors; ++j) {
        auto place = [&](size_t maker) { return Register(places.of[maker] * vectors + j); };
        const auto maker = MakerOf(i, 0);
        const Vec x =
            maker ? place(*maker) : Load(Temporary(0), pointers[0], instruction.operands[0], j);
        const Vec out = place(i);
        if (instruction.is_unary) {
          Unary(instruction.op, out, x);
        } else if (const auto second_maker = MakerOf(i, 1)) {
          Binary(i, out, x, place(*second_maker));
        } else if (takes_memory) {
          Binary(i, out, x, At(pointers[1], instruction.operands[1], j));
        } else {
          // A splat stays in its register.
          if (j == 0 || !IsSplat(instruction.operands[1])) {
            second = Load(Temporary(1), pointers[1], instruction.operands[1], j);
          }
          Binary(i, out, x, second);
        }
      }
      if (!instruction.is_stored) continue;
      LoadPointer(pointers[0], instruction.value);
      for (int j = 0; j < vectors; ++j) {
        Store(At(pointers[0], instruction.value, j), Register(places.of[i] * vectors + j));
      }
    }
  }

  void LoadPointer(const Gp& into, uint16_t value) {
    a_.mov(into, x86::ptr(values_, static_cast<int32_t>(value) * 8));
  }
  bool IsSplat(uint16_t value) const { return value < is_splat_.size() && is_splat_[value]; }
  Mem At(const Gp& pointer, uint16_t value, int j) const {
    return IsSplat(value) ? x86::ptr(pointer) : x86::ptr(pointer, at_, 0, j * bytes_);
  }
  Vec Load(const Vec& into, const Gp& pointer, uint16_t value, int j) {
    const Mem from = At(pointer, value, j);
    if (!masked_ || IsSplat(value)) {
      a_.emit(FORMWORK_BOTH(Vmovup), into, from);
    } else if (wide_) {
      a_.k(x86::k1).z().emit(FORMWORK_BOTH(Vmovup), into, from);
    } else {
      a_.emit(FORMWORK_BOTH(Vmaskmovp), into, Mask(), from);
    }
    return into;
  }
  void Store(const Mem& to, const Vec& from) {
    if (!masked_) {
      a_.emit(FORMWORK_BOTH(Vmovup), to, from);
    } else if (wide_) {
      a_.k(x86::k1).emit(FORMWORK_BOTH(Vmovup), to, from);
    } else {
      a_.emit(FORMWORK_BOTH(Vmaskmovp), to, Mask(), from);
    }
  }

  // Whether the op reads its second operand once.
  static bool TakesMemory(TileOp op) { return op != TileOp::kMaximum && op != TileOp::kMinimum; }

  // Results are those of elementwise_tile.cc's expressions, to the bit. `out` is written last: it
  // may be the register of an operand. Temporaries 0 and 1 may be x and y.
  template <typename Second>
  void Binary(size_t i, const Vec& out, const Vec& x, const Second& y) {
    switch (instructions_[i].op) {
      case TileOp::kAdd:
        a_.emit(FORMWORK_BOTH(Vaddp), out, x, y);
        return;
      case TileOp::kSub:
        a_.emit(FORMWORK_BOTH(Vsubp), out, x, y);
        return;
      case TileOp::kMul:
        a_.emit(FORMWORK_BOTH(Vmulp), out, x, y);
        return;
      case TileOp::kDiv:
        a_.emit(FORMWORK_BOTH(Vdivp), out, x, y);
        return;
      case TileOp::kSquaredDifference:
        a_.emit(FORMWORK_BOTH(Vsubp), Temporary(0), x, y);
        a_.emit(FORMWORK_BOTH(Vmulp), out, Temporary(0), Temporary(0));
        return;
      // "y > x ? y : x".
      case TileOp::kMaximum:
        Extreme(i, Of(Inst::kIdVmaxps, Inst::kIdVmaxpd), out, x, y);
        return;
      case TileOp::kMinimum:
        Extreme(i, Of(Inst::kIdVminps, Inst::kIdVminpd), out, x, y);
        return;
      default:
        failed_ = true;
    }
  }

  // The instruction gives x where one is NaN.
  template <typename Second>
  void Extreme(size_t i, Inst::Id which, const Vec& out, const Vec& x, const Second& y) {
    if (!masked_ && IsFreeOfNan(i)) {
      a_.emit(which, out, y, x);
      return;
    }
    a_.emit(which, Temporary(0), y, x);
    ChooseNan(out, Temporary(0), y);
  }

  // out = y is NaN ? y : other.
  template <typename Second>
  void ChooseNan(const Vec& out, const Vec& other, const Second& y) {
    constexpr int kUnordered = 3;
    if (wide_) {
      a_.emit(FORMWORK_BOTH(Vcmpp), x86::k2, y, y, kUnordered);
      a_.k(x86::k2).emit(FORMWORK_BOTH(Vblendmp), out, other, y);
    } else {
      a_.emit(FORMWORK_BOTH(Vcmpp), Unordered(), y, y, kUnordered);
      a_.emit(FORMWORK_BOTH(Vblendvp), out, other, y, Unordered());
    }
  }

  void Unary(TileOp op, const Vec& out, const Vec& x) {
    const Vec made = Temporary(1);
    switch (op) {
      case TileOp::kNeg:
        a_.emit(FORMWORK_BOTH(Vxorp), out, x, OfConstant(kSignBit));
        return;
      case TileOp::kAbs:  // A NaN keeps its sign.
        a_.emit(FORMWORK_BOTH(Vandp), made, x, OfConstant(kOtherBits));
        ChooseNan(out, made, x);
        return;
      case TileOp::kSquare:
        a_.emit(FORMWORK_BOTH(Vmulp), out, x, x);
        return;
      case TileOp::kReciprocal:
        a_.emit(FORMWORK_BOTH(Vmovup), made, OfConstant(kOne));
        a_.emit(FORMWORK_BOTH(Vdivp), out, made, x);
        return;
      case TileOp::kSqrt:
        a_.emit(FORMWORK_BOTH(Vsqrtp), out, x);
        return;
      case TileOp::kRsqrt:
        a_.emit(FORMWORK_BOTH(Vsqrtp), Temporary(0), x);
        a_.emit(FORMWORK_BOTH(Vmovup), made, OfConstant(kOne));
        a_.emit(FORMWORK_BOTH(Vdivp), out, made, Temporary(0));
        return;
      case TileOp::kRelu:  // "0 > x ? 0 : x".
        Zero(made);
        a_.emit(FORMWORK_BOTH(Vmaxp), out, made, x);
        return;
      case TileOp::kRelu6:
        Zero(made);
        a_.emit(FORMWORK_BOTH(Vmaxp), Temporary(0), made, x);
        a_.emit(FORMWORK_BOTH(Vmovup), made, OfConstant(kSix));
        a_.emit(FORMWORK_BOTH(Vminp), out, made, Temporary(0));
        return;
      default:
        failed_ = true;
    }
  }
  void Zero(const Vec& out) { a_.vxorps(out.xmm(), out.xmm(), out.xmm()); }

#undef FORMWORK_BOTH

  template <typename T, typename Bits>
  void EmbedConstantsAs(Bits sign) {
    constexpr size_t kCount = kTileScalarBytes / sizeof(T);
    auto embed = [&](auto of) {
      decltype(of(0)) values[kCount];
      for (size_t i = 0; i < kCount; ++i) values[i] = of(i);
      a_.embed(values, sizeof(values));
    };
    embed([&](size_t) { return sign; });
    embed([&](size_t) { return static_cast<Bits>(~sign); });
    embed([](size_t) { return T{1}; });
    embed([](size_t) { return T{6}; });
    embed([](size_t i) { return static_cast<Bits>(i); });
  }
  void EmbedConstants() {
    a_.align(asmjit::AlignMode::kData, 64);
    a_.bind(constants_);
    if (double_) {
      EmbedConstantsAs<double>(uint64_t{1} << 63);
    } else {
      EmbedConstantsAs<float>(uint32_t{1} << 31);
    }
  }

 public:
  bool failed() const { return failed_; }

 private:
  x86::Assembler a_;
  const bool wide_;
  const bool double_;
  const int bytes_;
  const absl::Span<const CompiledChains::Instruction> instructions_;
  const absl::Span<const bool> is_splat_;
  absl::flat_hash_map<uint16_t, size_t> made_by_;
  asmjit::Label constants_;
  bool masked_ = false;
  bool failed_ = false;

  const Gp values_ = x86::rdi, bytes_left_ = x86::rsi;  // The arguments.
  const Gp at_ = x86::rcx, last_ = x86::rdx, elements_ = x86::r8;
};

}  // namespace

std::unique_ptr<const CompiledChains> CompiledChains::Make(
    DType dtype, absl::Span<const Instruction> instructions, absl::Span<const bool> is_splat,
    Isa isa) {
  const bool has_code = isa != Isa::kBaseline && FindTileLoop(dtype) != nullptr;
  if (!has_code || instructions.empty() || instructions.size() > kMostInstructions) return nullptr;
  FailureFlag failure;
  asmjit::CodeHolder holder;
  if (holder.init(Runtime().environment()) != asmjit::kErrorOk) {
    return nullptr;
  }
  holder.setErrorHandler(&failure);
  Emitter emitter(&holder, dtype, isa, instructions, is_splat);
  Code code = nullptr;
  if (!emitter.Emit() || emitter.failed() || failure.failed ||
      Runtime().add(&code, &holder) != asmjit::kErrorOk) {
    return nullptr;
  }
  return std::unique_ptr<const CompiledChains>(new CompiledChains(code));
}

CompiledChains::~CompiledChains() { Runtime().release(code_); }

#else

std::unique_ptr<const CompiledChains> CompiledChains::Make(DType, absl::Span<const Instruction>,
                                                           absl::Span<const bool>, Isa) {
  return nullptr;
}
CompiledChains::~CompiledChains() = default;

#endif

}  // namespace formwork
