// Tickets of calls whose work is enqueued: who waits for whom, and whose memory a change is made
// in.

#include <cstring>
#include <optional>

#include "core/device/host_allocator.h"
#include "core/resource/access_ticket.h"
#include "core/resource/resource_store.h"
#include "tests/support/sim_device.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

using ::testing::IsEmpty;

const Shape kShape({16});

class VariableOrderTest : public ::testing::Test {
 protected:
  VariableOrderTest() {
    bool existed = false;
    variable_ = *store_.Create("ns", "v", ResourceType::Variable(DType::kFloat, kShape),
                               std::nullopt, false, &existed);
    Caller writer(*this, Access::kWrite);
    writer.Write();
  }

  // A call with a stream of its own.
  struct Caller {
    Caller(VariableOrderTest& test, Access mode)
        : test(test), stream(test.device_.NewStream().value()), streams({stream.get()}) {
      granted = ticket.Take({{test.variable_, mode}}, [this] { granted = true; });
      ticket.set_streams(test.device_.allocator(), streams);
    }
    // Whether the change is made in the memory of the value before.
    bool Write() {
      AccessTicket::EnqueuedWrite write =
          ticket.WriteEnqueued({test.variable_->id}, DType::kFloat, kShape).value();
      stream->Launch({.reads = {}, .writes = {&write.after.buffer()}},
                     [data = write.after.buffer().data()] {
                       std::memset(data, 1, 64);
                       return absl::OkStatus();
                     });
      return write.before.buffer().block() == write.after.buffer().block();
    }
    Tensor Read() { return ticket.ReadEnqueued({test.variable_->id}).value(); }
    void Use(const Tensor& value) {
      stream->Launch({.reads = {&value.buffer()}, .writes = {}}, [] { return absl::OkStatus(); });
    }

    VariableOrderTest& test;
    std::unique_ptr<Stream> stream;
    StreamGroup streams;
    AccessTicket ticket{test.store_, ProcessAllocator()};
    bool granted = false;
  };

  std::vector<std::string> Reports() {
    store_.Clear("ns");
    variable_.reset();
    device_.RunAll();
    return device_.Reports();
  }

  SimDevice device_{1};
  ResourceStore store_;
  std::shared_ptr<Resource> variable_;
};

TEST_F(VariableOrderTest, AWriterIsGrantedOnceTheOneBeforeIsEnqueued) {
  Caller first(*this, Access::kWrite), second(*this, Access::kWrite);
  first.Write();
  EXPECT_FALSE(second.granted);
  first.ticket.ReleaseAll();  // Nothing has run.
  EXPECT_TRUE(second.granted);
  EXPECT_TRUE(second.Write());
  second.ticket.ReleaseAll();
  EXPECT_THAT(Reports(), IsEmpty());
}

TEST_F(VariableOrderTest, AChangeIsMadeInPlaceBehindReadsThatAreEnqueued) {
  Caller reader(*this, Access::kRead);
  reader.Use(reader.Read());
  reader.ticket.ReleaseAll();
  Caller writer(*this, Access::kWrite);
  EXPECT_TRUE(writer.Write());
  writer.ticket.ReleaseAll();
  EXPECT_THAT(Reports(), IsEmpty());
}

TEST_F(VariableOrderTest, AReaderThatGoesOnKeepsItsValue) {
  Caller reader(*this, Access::kRead);
  Tensor value = reader.Read();
  Caller writer(*this, Access::kWrite);
  EXPECT_FALSE(writer.Write());
  writer.ticket.ReleaseAll();
  device_.RunAll();
  reader.Use(value);
  value = Tensor();
  reader.ticket.ReleaseAll();
  EXPECT_THAT(Reports(), IsEmpty());
}

TEST_F(VariableOrderTest, AValueThatTheCallStillHoldsIsNotOverwritten) {
  Caller caller(*this, Access::kWrite);
  Tensor before = caller.Read();
  EXPECT_FALSE(caller.Write());
  caller.Use(before);
  before = Tensor();
  EXPECT_TRUE(caller.Write());
  caller.ticket.ReleaseAll();
  EXPECT_THAT(Reports(), IsEmpty());
}

TEST_F(VariableOrderTest, WhoReadsAgainDoesNotWaitForWhatHasHappened) {
  int waits = 0;
  device_.LeaveOutWaits([&waits](const SimWait&) {
    ++waits;
    return false;
  });
  const auto read = [this] {
    Caller reader(*this, Access::kRead);
    reader.Use(reader.Read());
    reader.ticket.ReleaseAll();
  };
  read();
  read();
  EXPECT_EQ(waits, 2);
  device_.RunAll();
  for (int i = 0; i < 5; ++i) read();
  EXPECT_EQ(waits, 2);
  {
    Caller writer(*this, Access::kWrite);
    EXPECT_TRUE(writer.Write());
    writer.ticket.ReleaseAll();
  }
  waits = 0;
  read();
  EXPECT_EQ(waits, 1);
  device_.RunAll();
  read();
  EXPECT_EQ(waits, 1);
  EXPECT_THAT(Reports(), IsEmpty());
}

TEST_F(VariableOrderTest, AnEarlyReleaseIsEnqueuedToo) {
  Caller caller(*this, Access::kWrite);
  caller.Write();
  Tensor value = caller.Read();
  caller.ticket.Release({variable_->id});
  Caller writer(*this, Access::kWrite);
  EXPECT_TRUE(writer.granted);
  EXPECT_FALSE(writer.Write());
  writer.ticket.ReleaseAll();
  caller.Use(value);
  value = Tensor();
  caller.ticket.ReleaseAll();
  EXPECT_THAT(Reports(), IsEmpty());
}

}  // namespace
}  // namespace formwork::testing
