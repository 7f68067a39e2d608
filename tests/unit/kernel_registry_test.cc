#include "core/kernels/kernel.h"

#include "gtest/gtest.h"

namespace formwork {
namespace {

absl::StatusOr<KernelFn> MakeNothing(KernelInit&) {
  return KernelFn([](KernelContext&) { return absl::OkStatus(); });
}

TEST(KernelRegistryTest, FindsTheKernelOfAnOp) {
  OpRegistry ops;
  ops.Add("Nothing() -> ()");
  ops.Add("Other() -> ()");
  KernelRegistry kernels(ops);
  kernels.Add("Nothing", MakeNothing);
  EXPECT_EQ(kernels.Find("Nothing"), &MakeNothing);
  EXPECT_EQ(kernels.Find("Other"), nullptr);
  EXPECT_EQ(kernels.Names(), std::vector<std::string>{"Nothing"});
}

TEST(KernelRegistryDeathTest, ASecondKernelOfAnOpEndsTheProcess) {
  OpRegistry ops;
  ops.Add("Nothing() -> ()");
  KernelRegistry kernels(ops);
  kernels.Add("Nothing", MakeNothing);
  EXPECT_DEATH(kernels.Add("Nothing", MakeNothing), "broken kernel of Nothing: registered twice");
}

TEST(KernelRegistryDeathTest, AKernelOfNoOpEndsTheProcess) {
  OpRegistry ops;
  KernelRegistry kernels(ops);
  EXPECT_DEATH(kernels.Add("Nothnig", MakeNothing),
               "broken kernel of Nothnig: its op is not declared");
}

TEST(KernelRegistryDeathTest, AKernelOfAnOpThatRunsFunctionsEndsTheProcess) {
  OpRegistry ops;
  ops.Add("Run(x: float) -> (y: float); f: func", {.control_flow = ControlFlow::kCall});
  KernelRegistry kernels(ops);
  EXPECT_DEATH(kernels.Add("Run", MakeNothing), "broken kernel of Run: its op runs functions");
}

}  // namespace
}  // namespace formwork
