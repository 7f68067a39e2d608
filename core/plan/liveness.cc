#include "core/plan/liveness.h"

#include "core/base/stop_flag.h"

namespace formwork {
namespace {

// Goes through the program backwards, each instruction once. A loop needs what it reads from
// outside until it ends.
class Liveness {
 public:
  Liveness(Plan& plan, const std::vector<uint32_t>& handles)
      : plan_(plan),
        needed_(plan.num_slots, false),
        is_handle_(plan.num_slots, false),
        reads_(plan.num_slots, 0),
        seen_by_(plan.num_slots, 0) {
    for (uint32_t slot : handles) is_handle_[slot] = needed_[slot] = true;
  }

  void Run(const Region& whole) {
    for (size_t i = plan_.results.size(); i-- > 0;) {
      Plan::Ref& ref = plan_.results[i];
      if (!ref.constant && !needed_[ref.index]) {
        Need(ref.index);
        ref.owned = true;
      }
    }
    Visit(whole);
  }

 private:
  void Need(uint32_t slot) {
    needed_[slot] = true;
    found_.push_back(slot);
  }

  void Visit(const Region& region) {
    size_t c = region.constructs.size();
    for (uint32_t i = region.end; i > region.begin;) {
      if (WorkIsCutAt(i, kDearItems)) return;
      if (c > 0 && region.constructs[c - 1].end == i) {
        const Construct& construct = region.constructs[--c];
        construct.loop ? VisitLoop(construct) : VisitBranch(construct);
        i = construct.begin;
      } else {
        Visit(plan_.code[--i]);
      }
    }
  }

  void Visit(Plan::Instruction& instruction) {
    Plan& plan = plan_;
    const Plan::Range outputs = instruction.outputs;
    instruction.drops.first = static_cast<uint32_t>(plan.drops.size());
    for (uint32_t slot = outputs.first; slot < outputs.first + outputs.count; ++slot) {
      if (is_handle_[slot]) continue;
      if (!needed_[slot]) plan.drops.push_back(slot);
      needed_[slot] = false;
    }
    const auto inputs =
        absl::MakeSpan(plan.refs).subspan(instruction.inputs.first, instruction.inputs.count);
    for (const Plan::Ref& ref : inputs) {
      if (!ref.constant) ++reads_[ref.index];
    }
    for (Plan::Ref& ref : inputs) {
      if (ref.constant || needed_[ref.index]) continue;
      Need(ref.index);
      // A kernel that reads the slot through another input too must not take it.
      ref.owned = reads_[ref.index] == 1;
      const bool written = ref.index - outputs.first < outputs.count;
      const bool moved = ref.owned && instruction.code == Plan::Code::kMove;
      if (!written && !moved) plan.drops.push_back(ref.index);
    }
    for (const Plan::Ref& ref : inputs) {
      if (!ref.constant) reads_[ref.index] = 0;
    }
    instruction.drops.count = static_cast<uint32_t>(plan.drops.size()) - instruction.drops.first;
  }

  // What one branch needs is dropped at the start of the others.
  void VisitBranch(const Construct& branch) {
    const Plan::Range outputs = branch.outputs;
    std::vector<bool> outputs_needed(outputs.count);
    for (uint32_t k = 0; k < outputs.count; ++k) outputs_needed[k] = needed_[outputs.first + k];
    std::vector<std::vector<uint32_t>> needs;
    std::vector<uint32_t> all;
    const size_t before = found_.size();
    for (const Region& region : branch.regions) {
      Visit(region);
      std::vector<uint32_t>& own = needs.emplace_back();
      for (size_t i = before; i < found_.size(); ++i) {
        const uint32_t slot = found_[i];
        if (!needed_[slot]) continue;
        needed_[slot] = false;
        own.push_back(slot);
        all.push_back(slot);
      }
      found_.resize(before);
      for (uint32_t k = 0; k < outputs.count; ++k) {
        needed_[outputs.first + k] = outputs_needed[k];
      }
    }
    for (uint32_t k = 0; k < outputs.count; ++k) needed_[outputs.first + k] = false;
    std::vector<uint32_t> distinct;
    for (uint32_t slot : all) {
      if (needed_[slot]) continue;
      Need(slot);
      distinct.push_back(slot);
    }
    Plan::Instruction& instruction = plan_.code[branch.begin];
    for (size_t b = 0; b < needs.size(); ++b) {
      const uint32_t mark = ++marks_;
      for (uint32_t slot : needs[b]) seen_by_[slot] = mark;
      Plan::Range& drops = plan_.targets[instruction.target + b].drops;
      drops.first = static_cast<uint32_t>(plan_.drops.size());
      for (uint32_t slot : distinct) {
        if (seen_by_[slot] != mark) plan_.drops.push_back(slot);
      }
      drops.count = static_cast<uint32_t>(plan_.drops.size()) - drops.first;
    }
    Visit(instruction);
  }

  void VisitLoop(const Construct& loop) {
    Plan::Instruction& decision = plan_.code[loop.end - 1];
    Plan::Target& to_body = plan_.targets[decision.target];
    Plan::Target& to_end = plan_.targets[decision.target + 1];
    const auto drop_unneeded = [this](Plan::Target& target, const auto& slots) {
      target.drops.first = static_cast<uint32_t>(plan_.drops.size());
      for (uint32_t slot : slots) {
        if (needed_[slot]) continue;
        Need(slot);
        plan_.drops.push_back(slot);
      }
      target.drops.count = static_cast<uint32_t>(plan_.drops.size()) - target.drops.first;
    };
    std::vector<uint32_t> carried;
    for (uint32_t k = 0; k < loop.outputs.count; ++k) carried.push_back(loop.outputs.first + k);
    std::vector<uint32_t> all = loop.kept;
    all.insert(all.end(), carried.begin(), carried.end());
    drop_unneeded(to_end, all);
    Visit(decision);
    const Region& body = loop.regions[0];
    Region condition = loop.regions[1];
    condition.end = loop.end - 1;
    Visit(condition);
    Visit(body);
    drop_unneeded(to_body, carried);
  }

  Plan& plan_;
  std::vector<bool> needed_;
  std::vector<bool> is_handle_;
  std::vector<int32_t> reads_;     // By the instruction at hand.
  std::vector<uint32_t> seen_by_;  // The last mark that each slot was given.
  uint32_t marks_ = 0;
  std::vector<uint32_t> found_;  // Slots in the order in which they were found to be needed.
};

}  // namespace

void FindLastUses(Plan& plan, const Region& whole, const std::vector<uint32_t>& handles) {
  Liveness(plan, handles).Run(whole);
}

}  // namespace formwork
