// Calls, forks, branches and loops.

#include <algorithm>
#include <utility>

#include "core/base/status.h"
#include "core/plan/emitter.h"

namespace formwork {
namespace {

// Numbers of hidden state of one function: calls of calls of calls could have any number.
constexpr uint64_t kMostState = uint64_t{1} << 20;

}  // namespace

absl::Status Emitter::AddCall(Body& body, int32_t i) {
  const Node& node = body.graph.nodes[i];
  const uint32_t index = *scope_.FindFunction(FunctionCall::Of(body.graph, node));
  const Plan& callee = *scope_.functions[index];
  // Each call has its own, as where the function is part of its caller.
  if (uint64_t{plan_->num_state} + callee.num_state > kMostState) {
    return ResourceExhausted("node '", node.name,
                             "': the calls of functions with hidden state, "
                             "such as how far a random op has got, are too many: limit=",
                             kMostState);
  }
  const uint32_t call = static_cast<uint32_t>(plan_->calls.size());
  plan_->calls.push_back({index, plan_->num_state});
  if (callee.num_state > 0) {
    plan_->states.push_back({node.name, {plan_->num_state, callee.num_state}, index});
    plan_->num_state += callee.num_state;
  }
  std::vector<Plan::Ref> inputs = InputsOf(body, node);
  for (size_t k = 0; k < inputs.size(); ++k) {
    inputs[k] = CopyTo(MemoryByDType(body.graph.dtype(node.inputs[k])), inputs[k], body.copies);
  }
  JoinStreams(inputs);
  clocks_.NoteMade(NewStep(body, i, Plan::Code::kCall, call, inputs).outputs);
  for (size_t k = 0; on_device() && k < node.output_dtypes.size(); ++k) {
    plan_->memory[body.refs[i][k].index] = MemoryByDType(node.output_dtypes[k]);
  }
  if (callee.last_effect >= 0) plan_->last_effect = Here() - 1;
  NoteAccess(body, i, [&callee](size_t k) { return callee.arg_access[k]; });
  return absl::OkStatus();
}

absl::Status Emitter::AddFork(Body& body, int32_t i) {
  const Node& node = body.graph.nodes[i];
  const uint32_t first = static_cast<uint32_t>(plan_->calls.size());
  std::vector<Access> access;
  for (const Graph& lane : node.bodies) {
    FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<Plan> plan, Emit(lane, scope_, /*root=*/false));
    access.insert(access.end(), plan->arg_access.begin(), plan->arg_access.end());
    plan_->calls.push_back({static_cast<uint32_t>(scope_.functions.size())});
    scope_.functions.push_back(std::move(plan));
  }
  NewStep(body, i, Plan::Code::kFork, first, InputsOf(body, node)).num_targets =
      static_cast<uint32_t>(node.bodies.size());
  NoteAccess(body, i, [&access](size_t k) { return access[k]; });
  return absl::OkStatus();
}

//      branch selector -> first, second, ...
//   first:  body; outputs = results; jump end
//   second: body; outputs = results
//   end:
absl::Status Emitter::AddBranches(Body& body, int32_t i) {
  const Node& node = body.graph.nodes[i];
  const size_t branches = node.bodies.size();
  const std::vector<Plan::Ref> arguments = ArgumentsOf(body, node);
  Construct construct;
  const Plan::Ref selector = CopyTo(Plan::Memory::kHost, body.ref(node.inputs[0]), body.copies);
  construct.begin = Here();
  Plan::Instruction& choice = NewInstruction(
      node.op->control_flow == ControlFlow::kIf ? Plan::Code::kBranch : Plan::Code::kSwitch,
      node.name, node.op);
  choice.target = NewTargets(branches);
  choice.num_targets = static_cast<uint32_t>(branches);
  AddInput(selector);
  const size_t outputs = node.output_dtypes.size();
  const uint32_t first = plan_->num_slots;
  for (DType dtype : node.output_dtypes) NewSlots(1, MemoryByDType(dtype));
  construct.outputs = {first, static_cast<uint32_t>(outputs)};
  for (size_t k = 0; k < outputs; ++k) {
    body.refs[i].push_back({.index = first + static_cast<uint32_t>(k)});
  }
  std::vector<uint32_t> jumps;
  const StreamClocks::State before = clocks_.state();
  for (size_t b = 0; b < branches; ++b) {
    LandHere(construct.begin, b);
    clocks_.Restore(before);
    Region region;
    FORMWORK_ASSIGN_OR_RETURN(std::vector<Plan::Ref> results,
                              EmitBody(node.bodies[b], arguments, region, false));
    for (size_t k = 0; k < outputs; ++k) {
      results[k] = CopyTo(MemoryByDType(node.output_dtypes[k]), results[k]);
    }
    JoinStreams(results);
    Move(results, first);
    for (size_t k = 0; k < outputs; ++k) {
      if (Accesses::HoldsHandles(node.output_dtypes[k])) {
        accesses_.AddOrigins(first + static_cast<uint32_t>(k), accesses_.OriginsOf(results[k]));
      }
    }
    if (b + 1 < branches) jumps.push_back(Jump());
    region.end = Here();
    construct.regions.push_back(std::move(region));
  }
  for (uint32_t jump : jumps) LandHere(jump);
  clocks_.Restore(before);
  clocks_.NoteMade(construct.outputs);
  construct.end = Here();
  body.region.constructs.push_back(std::move(construct));
  return absl::OkStatus();
}

//      variables = inputs; jump decide
//   again:  body; variables = results
//   decide: condition; loop -> again, end
//   end:
// What the body passes on unchanged is no variable of the loop: it is read where it is.
absl::Status Emitter::AddLoop(Body& body, int32_t i) {
  const Node& node = body.graph.nodes[i];
  const Graph& condition = node.bodies[0];
  const Graph& loop_body = node.bodies[1];
  scope_.open_ended = true;
  std::vector<Plan::Ref> variables = ArgumentsOf(body, node);
  std::vector<Plan::Ref> initial;
  std::vector<size_t> carried;
  Construct construct;
  construct.loop = true;
  std::vector<Plan::Memory> memory;
  for (size_t k = 0; k < variables.size(); ++k) {
    const bool kept = loop_body.results[k] == Edge{loop_body.args[k], 0};
    if (on_device()) {  // Before the loop: not once for each iteration.
      const Plan::Memory wanted =
          MemoryOfLoopVariable(node.output_dtypes[k], MemoryOf(variables[k]));
      variables[k] = CopyTo(wanted, variables[k], body.copies);
      if (!kept) memory.push_back(wanted);
    }
    if (kept) {
      if (!variables[k].constant) construct.kept.push_back(variables[k].index);
    } else {
      carried.push_back(k);
      initial.push_back(variables[k]);
    }
  }
  const uint32_t first = NewSlots(carried.size());
  std::copy(memory.begin(), memory.end(), plan_->memory.end() - memory.size());
  construct.outputs = {first, static_cast<uint32_t>(carried.size())};
  const Accesses::OriginsPtr origins = accesses_.Carried(node, carried, variables);
  for (size_t c = 0; c < carried.size(); ++c) {
    variables[carried[c]] = {.index = first + static_cast<uint32_t>(c)};
    if (Accesses::HoldsHandles(node.output_dtypes[carried[c]])) {
      accesses_.AddOrigins(variables[carried[c]].index, origins);
    }
  }
  body.refs[i] = variables;
  JoinStreams(initial);
  Move(initial, first);
  clocks_.NoteMade(construct.outputs);
  const StreamClocks::State before = clocks_.state();
  const uint32_t jump = Jump();
  construct.begin = jump;
  construct.regions.resize(2);
  const uint32_t again = Here();
  FORMWORK_ASSIGN_OR_RETURN(const std::vector<Plan::Ref> all,
                            EmitBody(loop_body, variables, construct.regions[0], false));
  std::vector<Plan::Ref> results;
  for (size_t k : carried) results.push_back(all[k]);
  for (size_t c = 0; c < memory.size(); ++c) results[c] = CopyTo(memory[c], results[c]);
  JoinStreams(results);
  SaveOverwritten(results, first);
  Move(results, first);
  construct.regions[0].end = Here();
  for (size_t c = 0; c < carried.size(); ++c) {
    if (!Accesses::HoldsHandles(node.output_dtypes[carried[c]])) continue;
    const Accesses::OriginsPtr made = accesses_.OriginsOf(results[c]);
    accesses_.NoteEscaped(made, origins);
    for (uint32_t slot = first; slot < first + carried.size(); ++slot) {
      accesses_.AddOrigins(slot, made);
    }
  }
  LandHere(jump);
  clocks_.Restore(before);
  FORMWORK_ASSIGN_OR_RETURN(const std::vector<Plan::Ref> decision,
                            EmitBody(condition, variables, construct.regions[1], false));
  const Plan::Ref decided = CopyTo(Plan::Memory::kHost, decision[0]);
  const uint32_t decide = Here();
  Plan::Instruction& loop = NewInstruction(Plan::Code::kLoop, node.name, node.op);
  loop.target = NewTargets(2);
  loop.num_targets = 2;
  AddInput(decided);
  plan_->targets[plan_->code[decide].target].instruction = again;
  LandHere(decide, 1);
  clocks_.Restore(before);
  clocks_.NoteMade(construct.outputs);
  construct.regions[1].end = construct.end = Here();
  body.region.constructs.push_back(std::move(construct));
  return absl::OkStatus();
}

void Emitter::SaveOverwritten(std::vector<Plan::Ref>& results, uint32_t first) {
  std::vector<Plan::Ref> saved;
  std::vector<size_t> places;
  for (size_t c = 0; c < results.size(); ++c) {
    if (!results[c].constant && results[c].index >= first && results[c].index <= first + c) {
      saved.push_back(results[c]);
      places.push_back(c);
    }
  }
  const uint32_t aside = plan_->num_slots;
  for (const Plan::Ref& ref : saved) {
    NewSlots(1, on_device() ? MemoryOf(ref) : Plan::Memory::kHost);
  }
  Move(saved, aside);
  for (size_t s = 0; s < places.size(); ++s) {
    const uint32_t slot = aside + static_cast<uint32_t>(s);
    if (Accesses::OriginsPtr origins = accesses_.OriginsOf(saved[s])) {
      accesses_.AddOrigins(slot, origins);
    }
    results[places[s]] = {.index = slot};
  }
}

std::vector<Plan::Ref> Emitter::ArgumentsOf(const Body& body, const Node& node) {
  std::vector<Plan::Ref> arguments;
  for (size_t k = node.op->inputs_before_functions(); k < node.inputs.size(); ++k) {
    arguments.push_back(body.ref(node.inputs[k]));
  }
  return arguments;
}

}  // namespace formwork
