#pragma once

// What requests over HTTP about models share, whichever API they are of.

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/engine.h"
#include "server/http_message.h"
#include "server/http_server.h"
#include "server/request_scope.h"
#include "server/serving/predict.h"

namespace formwork::server {

/// How many requests are under way, from their first step until their answer. Thread-safe.
class RestRequests {
 public:
  void Add(int change) {
    absl::MutexLock lock(&mutex_);
    count_ += change;
  }
  void WaitForNone() {
    const auto none = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return count_ == 0; };
    absl::MutexLock lock(&mutex_, absl::Condition(&none));
  }

 private:
  absl::Mutex mutex_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

/// An answer of JSON. What clients sent is quoted in it as far as it is text.
HttpAnswer JsonAnswer(int code, const nlohmann::ordered_json& json);

/// One request from its body to its answer, on one thread at a time. The namespace is what its
/// header calls `Formwork-Namespace`. A call whose client leaves is cancelled.
class RestRequest : public std::enable_shared_from_this<RestRequest> {
 public:
  /// What `scope` refers to, and `requests`, outlive it.
  RestRequest(const RequestScope& scope, RestRequests& requests, HttpRequest http,
              HttpServer::Reply reply);
  virtual ~RestRequest();
  RestRequest(const RestRequest&) = delete;
  RestRequest& operator=(const RestRequest&) = delete;

  /// Has it answered; requests of web pages are refused. Once.
  void Start();

 protected:
  /// Finds out what is asked for, and has one of the methods below answer it.
  virtual void Route() = 0;
  /// The call that a request for a prediction asks for; more than once, where its model is replaced
  /// meanwhile. Held to the memory limit.
  virtual absl::StatusOr<PredictCall> ReadPredict() = 0;
  /// The answer to it. Held to the memory limit.
  virtual absl::StatusOr<HttpAnswer> WritePrediction(const Prediction& prediction) = 0;

  /// Answers by a prediction: counted as a call.
  void Predict();
  /// Answers by what `tell` makes, on a thread of ours and held to the memory limit.
  void Tell(absl::AnyInvocable<absl::StatusOr<HttpAnswer>()> tell);
  /// Answers at once by what needs neither.
  void Send(HttpAnswer answer);
  void Finish(const absl::Status& status);
  /// 405. `instead`: which method there is.
  void RefuseMethod(absl::string_view instead);

  const RequestScope& scope() const { return scope_; }
  const HttpRequest& http() const { return http_; }
  const std::string& name_space() const { return name_space_; }
  bool is_post() const { return http_.method == "POST"; }

 private:
  struct Caller;  // As CallModel takes it.

  // Runs `work`, which sees to it that there is an answer; what it throws for want of memory is
  // the answer.
  void Guard(absl::FunctionRef<void()> work);
  void AnswerCall(PredictCall call, CallResult result);
  void Write();
  void Count(const absl::Status& status);

  const RequestScope& scope_;
  RestRequests& requests_;
  const HttpRequest http_;
  HttpServer::Reply reply_;
  const std::string name_space_;
  const absl::Time arrival_ = absl::Now();
  bool is_call_ = false;
  std::string function_name_;
  Prediction prediction_;
};

}  // namespace formwork::server
