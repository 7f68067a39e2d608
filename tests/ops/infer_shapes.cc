// Tells what is inferred of the shapes in graphs, for tests/python/test_shapes.py. It reads, again
// and again, a cut of a graph,
//
//   graph 1234         how many bytes a GraphDef has, which begin behind the line
//   feed x:0 1 [?,3]   dtype as TensorFlow's number, and what is known; of a handle: of its
//   variable fetch y:0 infer
//
// and answers with a line: the shapes of what is fetched, in order, or `error` with what the
// importer says.

#include <algorithm>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/base/status.h"
#include "core/graph/import.h"
#include "core/graph/passes/pipeline.h"
#include "tests/support/graph_world.h"
#include "tests/support/op_case_text.h"

namespace formwork::testing {
namespace {

struct Request {
  std::string graph_def;
  Cut cut;
  std::vector<PartialShape> feed_shapes;
};

// The next request of `in`; false at its end.
absl::StatusOr<bool> ReadRequest(std::istream& in, Request& request) {
  std::string line;
  while (std::getline(in, line)) {
    const std::vector<std::string> words = Tokens(line);
    if (words.empty()) continue;
    if (words[0] == "infer") return true;
    if (words[0] == "graph" && words.size() == 2) {
      FORMWORK_ASSIGN_OR_RETURN(const int64_t bytes, ParseInt(words[1]));
      request.graph_def.resize(static_cast<size_t>(bytes));
      in.read(request.graph_def.data(), bytes);
    } else if (words[0] == "feed" && words.size() == 4) {
      FORMWORK_ASSIGN_OR_RETURN(const int64_t dtype, ParseInt(words[2]));
      FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, ParsePartialShape(words[3]));
      request.cut.feeds.emplace_back(words[1], static_cast<DType>(dtype));
      request.feed_shapes.push_back(std::move(shape));
    } else if (words[0] == "fetch" && words.size() == 2) {
      request.cut.fetches.push_back(words[1]);
    } else {
      return InvalidArgument("no such line: ", line);
    }
  }
  return false;
}

absl::StatusOr<std::string> Infer(GraphWorld& world, const Request& request) {
  tf::GraphDef graph_def;
  FORMWORK_RETURN_IF_ERROR(ParseGraphDef(request.graph_def, graph_def));
  FORMWORK_ASSIGN_OR_RETURN(
      const ImportedGraph imported,
      ImportGraph(graph_def, request.cut, world.ops, world.allocator, &world.culprits));
  Graph graph = *imported.graph;
  PassBudget budget;
  const PassContext context{imported.library, world.ops, world.kernels, world.allocator, budget};
  InlineCalls(graph, context);
  FORMWORK_RETURN_IF_ERROR(Simplify(graph, request.feed_shapes, context));
  return absl::StrJoin(graph.results, " ", [&graph](std::string* text, const Edge& result) {
    const PartialShape& shape = graph.shape(result);
    absl::StrAppend(text, shape.known_rank() ? shape.ToString() : "?");
  });
}

int Main() {
  GraphWorld world;
  for (;;) {
    Request request;
    const absl::StatusOr<bool> read = ReadRequest(std::cin, request);
    if (!read.ok()) {
      std::cerr << read.status() << "\n";
      return 1;
    }
    if (!*read) return 0;
    const absl::StatusOr<std::string> shapes = Infer(world, request);
    // In one line, whatever the message holds.
    std::cout << (shapes.ok()
                      ? *shapes
                      : absl::StrCat("error ",
                                     absl::StrReplaceAll(shapes.status().message(), {{"\n", " "}})))
              << std::endl;
  }
}

}  // namespace
}  // namespace formwork::testing

int main() { return formwork::testing::Main(); }
