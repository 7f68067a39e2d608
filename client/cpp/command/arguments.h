#pragma once

// What the `formwork` command was asked to do.

#include <cstdint>
#include <string>
#include <vector>

namespace formwork::command {

struct Arguments {
  std::string server = "127.0.0.1:8500";
  std::string name_space = "default";
  double timeout_seconds = 60;
  bool json = false;
  bool tls = false;    ///< Encrypted; so it is with any of the next three.
  std::string tls_ca;  ///< A file; empty: the system's.
  std::string tls_cert;
  std::string tls_key;

  std::string name;  ///< A function's or a variable's.
  uint64_t id = 0;
  std::vector<std::string> inputs;  ///< Files or JSON: value_text.h.
  std::string save;                 ///< Where results go as .npy; empty: nowhere.

  std::string trace;     ///< call: where its timeline goes; empty: there is none.
  bool atomic = false;   ///< call: all of its changes, or none.
  bool relaxed = false;  ///< call: forward and backward on a snapshot.

  // register
  std::string graph;
  std::vector<std::string> specs;
  std::vector<std::string> outputs;
  std::vector<std::string> captures;
  std::vector<std::string> targets;
  bool replace = false;  ///< And of load.
  int64_t max_batch_rows = 0;

  std::string path;                ///< export, restore, load: of the server's files.
  std::vector<std::string> names;  ///< Of variables; none: all.
  std::vector<std::string> tags;   ///< load: of the graph.

  std::string filter;         ///< ops: of names.
  bool plan = false;          ///< describe: with the plans.
  bool yes = false;           ///< clear: does not ask.
  std::string value;          ///< assign
  std::vector<uint64_t> ids;  ///< release
  bool watch = false;         ///< status: again every second.
  std::string durability;     ///< durability

  // bench
  int in_flight = 1;
  double seconds = 3;
};

}  // namespace formwork::command
