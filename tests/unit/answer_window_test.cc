// What clients' requests were answered: repeats, bounds, what has gone.

#include "core/base/answer_window.h"

#include <random>
#include <set>
#include <thread>

#include "absl/time/clock.h"
#include "core/base/reason.h"
#include "tests/support/status_matchers.h"

namespace formwork {
namespace {

using absl::StatusCode;
using testing::StatusIs;
using Place = AnswerWindow::Place;

class Text final : public AnswerWindow::Answer {
 public:
  explicit Text(std::string text, size_t bytes = 1) : text(std::move(text)), bytes_(bytes) {}
  size_t bytes() const override { return bytes_; }
  const std::string text;

 private:
  const size_t bytes_;
};

// What it was told.
struct Listener final : AnswerWindow::Waiter {
  void OnAnswer(std::shared_ptr<const AnswerWindow::Answer> answer) override {
    ++told;
    heard = std::move(answer);
  }
  std::string text() const {
    const auto* const text = dynamic_cast<const Text*>(heard.get());
    return text == nullptr ? "" : text->text;
  }
  int told = 0;
  std::shared_ptr<const AnswerWindow::Answer> heard;
};

RequestId Request(uint64_t sequence, uint64_t acknowledged = 0, const std::string& client = "c") {
  return {client, sequence, acknowledged, absl::ZeroDuration()};
}
RequestId Repeat(uint64_t sequence, absl::Duration age = absl::Milliseconds(1)) {
  return {"c", sequence, 0, age};
}

class AnswerWindowTest : public ::testing::Test {
 protected:
  AnswerWindow& Make(const AnswerWindow::Options& options) { return window_.emplace(options); }
  AnswerWindow& window() { return *window_; }

  Place Begin(const RequestId& id, uint64_t content = 7) {
    const absl::StatusOr<AnswerWindow::Begun> begun = window().Begin("ns", id, content);
    EXPECT_OK(begun);
    return begun.ok() ? begun->place : Place::kFirst;
  }
  void End(const RequestId& id, const std::string& text, size_t bytes = 1) {
    window().End("ns", id, std::make_shared<const Text>(text, bytes), /*had_effect=*/true);
  }
  void Do(const RequestId& id, const std::string& text, size_t bytes = 1) {
    EXPECT_EQ(Begin(id), Place::kFirst);
    End(id, text, bytes);
  }
  // What a request that comes again is answered; its error's reason where it is refused.
  std::string Again(const RequestId& id, uint64_t content = 7) {
    const absl::StatusOr<AnswerWindow::Begun> begun = window().Begin("ns", id, content);
    if (!begun.ok()) {
      return ReasonOf(begun.status()) == Reason::kAnswerForgotten ? "forgotten" : "refused";
    }
    if (begun->place != Place::kAnswered) return "not answered";
    return static_cast<const Text&>(*begun->answer).text;
  }

  std::optional<AnswerWindow> window_{AnswerWindow::Options()};
};

TEST_F(AnswerWindowTest, WhatComesAgainIsAnsweredAgain) {
  Do(Request(1), "one");
  Do(Request(2), "two");
  EXPECT_EQ(Again(Request(1)), "one");
  EXPECT_EQ(Again(Repeat(1)), "one");
  EXPECT_EQ(Again(Request(2)), "two");
  EXPECT_EQ(Begin(Request(3)), Place::kFirst);
  EXPECT_EQ(window().stats().answers, 2);
  EXPECT_EQ(window().stats().repeats, 3u);
}

TEST_F(AnswerWindowTest, ClientsAndNamespacesAreApart) {
  Do(Request(1), "one");
  EXPECT_EQ(Begin(Request(1, 0, "d")), Place::kFirst);
  EXPECT_EQ(window().Begin("other", Request(1), 7)->place, Place::kFirst);
}

TEST_F(AnswerWindowTest, ANumberIsOfOneRequest) {
  Do(Request(1), "one");
  EXPECT_THAT(window().Begin("ns", Request(1), 8).status(), StatusIs(StatusCode::kInvalidArgument));
  Begin(Request(2));
  EXPECT_THAT(window().Begin("ns", Request(2), 8).status(), StatusIs(StatusCode::kInvalidArgument));
}

TEST_F(AnswerWindowTest, WhoWaitsIsToldOnce) {
  Begin(Request(1));
  EXPECT_FALSE(window().IsAwaited("ns", Request(1), nullptr));
  const auto first = std::make_shared<Listener>(), second = std::make_shared<Listener>(),
             gone = std::make_shared<Listener>();
  for (const auto& listener : {first, second, gone}) {
    EXPECT_EQ(window().Begin("ns", Repeat(1), 7, listener)->place, Place::kRuns);
  }
  EXPECT_TRUE(window().IsAwaited("ns", Request(1), nullptr));
  EXPECT_FALSE(window().IsAwaited("ns", Request(1), second.get()));
  window().StopWaiting("ns", Repeat(1), gone.get());
  End(Request(1), "one");
  EXPECT_EQ(first->text(), "one");
  EXPECT_EQ(second->text(), "one");
  EXPECT_EQ(first->told, 1);
  EXPECT_EQ(gone->told, 0);
  EXPECT_EQ(gone.use_count(), 1);
}

TEST_F(AnswerWindowTest, WhatHadNoEffectIsDoneByWhoWaitsOrComesNext) {
  Begin(Request(1));
  const auto waiter = std::make_shared<Listener>(), last = std::make_shared<Listener>();
  EXPECT_OK(window().Begin("ns", Repeat(1), 7, waiter));
  EXPECT_OK(window().Begin("ns", Repeat(1), 7, last));
  window().End("ns", Request(1), nullptr, /*had_effect=*/false);
  EXPECT_EQ(waiter->told, 1);
  EXPECT_EQ(waiter->heard, nullptr);  // It is its to do.
  EXPECT_EQ(last->told, 0);
  window().End("ns", Request(1), nullptr, /*had_effect=*/false);
  EXPECT_EQ(last->told, 1);
  window().End("ns", Request(1), nullptr, /*had_effect=*/false);
  EXPECT_EQ(Begin(Repeat(1)), Place::kFirst);
}

TEST_F(AnswerWindowTest, WhatChangedNothingIsToldAndNotRemembered) {
  Begin(Request(1));
  const auto waiter = std::make_shared<Listener>();
  EXPECT_OK(window().Begin("ns", Repeat(1), 7, waiter));
  window().End("ns", Request(1), std::make_shared<const Text>("read"), /*had_effect=*/false);
  EXPECT_EQ(waiter->text(), "read");
  EXPECT_EQ(window().stats().answers, 0);
  EXPECT_EQ(Begin(Repeat(1)), Place::kFirst);
}

TEST_F(AnswerWindowTest, AnAnswerWithoutMemoryIsForgotten) {
  Begin(Request(1));
  const auto waiter = std::make_shared<Listener>();
  EXPECT_OK(window().Begin("ns", Repeat(1), 7, waiter));
  window().End("ns", Request(1), nullptr, /*had_effect=*/true);
  EXPECT_EQ(waiter->told, 1);
  EXPECT_NE(waiter->heard, nullptr);  // Else it would do it again.
  EXPECT_EQ(waiter->text(), "");
  EXPECT_EQ(Again(Repeat(1)), "forgotten");
}

TEST_F(AnswerWindowTest, WhatIsAcknowledgedGoesAndIsNotDoneAgain) {
  for (uint64_t i = 1; i <= 5; ++i) Do(Request(i), "x");
  Do(Request(6, /*acknowledged=*/4), "six");
  EXPECT_EQ(window().stats().answers, 2);
  EXPECT_EQ(window().stats().evictions, 0u);
  EXPECT_EQ(Again(Repeat(4)), "forgotten");
  EXPECT_EQ(Again(Request(4)), "forgotten");
  EXPECT_EQ(Again(Repeat(5)), "x");
  // What runs when it is acknowledged is not remembered.
  Begin(Request(7));
  Do(Request(8, /*acknowledged=*/7), "eight");
  End(Request(7), "seven");
  EXPECT_EQ(Again(Repeat(7)), "forgotten");
  EXPECT_EQ(window().stats().answers, 1);
}

TEST_F(AnswerWindowTest, TheOldestAnswersOfAClientMakePlace) {
  Make({.max_answers = 3});
  Begin(Request(1));  // Runs all the while.
  for (uint64_t i = 3; i <= 8; ++i) Do(Request(i), absl::StrCat(i));
  Do(Request(1, 0, "d"), "another's");
  for (uint64_t i = 3; i <= 5; ++i) EXPECT_EQ(Again(Repeat(i)), "forgotten");
  for (uint64_t i = 6; i <= 8; ++i) EXPECT_EQ(Again(Repeat(i)), absl::StrCat(i));
  EXPECT_EQ(Begin(Request(2)), Place::kFirst);  // It was late, and is new.
  End(Request(1), "one");
  EXPECT_EQ(window().stats().evictions, 4u);
  EXPECT_EQ(window().stats().forgotten, 3u);
  EXPECT_EQ(window().stats().answers, 4);
}

TEST_F(AnswerWindowTest, BytesAreBounded) {
  Make({.max_bytes = 400});
  Do(Request(1), "one", 60);
  Do(Request(2), "two", 60);  // A client has a quarter.
  EXPECT_EQ(Again(Repeat(1)), "forgotten");
  Do(Request(3), "three", 101);
  EXPECT_EQ(Again(Repeat(3)), "forgotten");
  EXPECT_EQ(window().stats().bytes, 0u);
  for (int client = 0; client < 10; ++client) Do(Request(1, 0, absl::StrCat(client)), "x", 90);
  EXPECT_EQ(window().stats().bytes, 360u);
  EXPECT_EQ(Again(Request(1, 0, "5")), "forgotten");
  EXPECT_EQ(Again(Request(1, 0, "6")), "x");
}

TEST_F(AnswerWindowTest, ClientsAreForgottenAndTheirRequestsAreNotDoneAgain) {
  Make({.ttl = absl::Milliseconds(20)});
  Do(Request(1), "one");
  Begin(Request(1, 0, "busy"));
  absl::SleepFor(absl::Milliseconds(30));
  EXPECT_EQ(window().stats().clients, 1);
  EXPECT_EQ(window().stats().answers, 0);
  EXPECT_EQ(Again(Repeat(1, absl::Milliseconds(31))), "forgotten");
  // Also where the client has been seen since.
  EXPECT_EQ(Begin(Request(2)), Place::kFirst);
  EXPECT_EQ(Again(Repeat(1, absl::Milliseconds(31))), "forgotten");
  EXPECT_EQ(Begin(Request(3)), Place::kFirst);
}

TEST_F(AnswerWindowTest, WhatAnotherProcessMayHaveDoneIsRefused) {
  Make({.begins = absl::Now()});
  EXPECT_EQ(Again(Repeat(5, absl::Seconds(1))), "forgotten");
  EXPECT_EQ(Begin(Request(6)), Place::kFirst);
  EXPECT_EQ(Again(Repeat(5, absl::Seconds(1))), "forgotten");
}

TEST_F(AnswerWindowTest, NothingIsRememberedWhereNothingIsToBe) {
  Make({.max_answers = 0});
  Do(Request(1), "one");
  EXPECT_EQ(Begin(Request(1)), Place::kFirst);
  EXPECT_EQ(Again(Repeat(1)), "forgotten");
}

TEST_F(AnswerWindowTest, ManyClientsTakeBoundedPlaces) {
  for (int i = 0; i < 20'000; ++i) Do(Request(1, 0, absl::StrCat("client ", i)), "x");
  EXPECT_LE(window().stats().clients, 1 << 14);
  EXPECT_LE(window().stats().answers, 1 << 14);
  // Who was forgotten a moment ago cannot be told from who was never there.
  EXPECT_EQ(Again(RequestId{"client 0", 1, 0, absl::Seconds(1)}), "forgotten");
  EXPECT_EQ(Again(Request(1, 0, "client 19999")), "x");
}

TEST_F(AnswerWindowTest, NamesAreChecked) {
  EXPECT_THAT(window().Begin("ns", Request(1, 0, std::string(129, 'x')), 7).status(),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(window().Begin("a\n", Request(1), 7).status(),
              StatusIs(StatusCode::kInvalidArgument));
}

TEST_F(AnswerWindowTest, EachRequestOfManyThreadsIsDoneOnce) {
  constexpr int kRequests = 1000;  // Within the window.
  std::atomic<int> done{0}, answered{0};
  struct Counter final : AnswerWindow::Waiter {
    explicit Counter(std::atomic<int>& answered) : answered(answered) {}
    void OnAnswer(std::shared_ptr<const AnswerWindow::Answer> answer) override {
      EXPECT_NE(answer, nullptr);
      ++answered;
    }
    std::atomic<int>& answered;
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 1; i <= kRequests; ++i) {
        const RequestId id = Repeat(i);
        const auto begun = window().Begin("ns", id, 7, std::make_shared<Counter>(answered));
        ASSERT_OK(begun);
        if (begun->place == Place::kAnswered) ++answered;
        if (begun->place != Place::kFirst) continue;
        ++done;
        End(id, "x");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(done, kRequests);
  EXPECT_EQ(done + answered, 4 * kRequests);
}

// ------------------------------------------------------------------------------------------ ranges

TEST(SequenceRangesTest, HoldWhatWasAdded) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    SequenceRanges ranges;
    std::set<uint64_t> added;
    uint64_t highest = 0;
    for (int i = 0; i < 60; ++i) {
      const uint64_t sequence = 1 + random() % 120;
      ranges.Add(sequence);
      added.insert(sequence);
      highest = std::max(highest, sequence);
      // What was added stays; beyond the highest there is nothing.
      for (uint64_t s : added) ASSERT_TRUE(ranges.Contains(s)) << s << " round " << round;
      ASSERT_FALSE(ranges.Contains(highest + 1));
    }
  }
}

TEST(SequenceRangesTest, AreExactWhileTheyAreFew) {
  SequenceRanges ranges;
  for (uint64_t s : {10, 12, 11, 1, 20}) ranges.Add(s);
  for (uint64_t s = 1; s < 25; ++s) {
    EXPECT_EQ(ranges.Contains(s), s == 1 || (s >= 10 && s <= 12) || s == 20) << s;
  }
  ranges.DropUpTo(11);
  EXPECT_FALSE(ranges.Contains(1));
  EXPECT_TRUE(ranges.Contains(12));
  // Sixteen ranges are exact; with one more the lowest two become one.
  SequenceRanges many;
  for (uint64_t i = 1; i <= 17; ++i) many.Add(10 * i);
  EXPECT_TRUE(many.Contains(15));
  EXPECT_FALSE(many.Contains(25));
  EXPECT_FALSE(many.Contains(5));
}

}  // namespace
}  // namespace formwork
