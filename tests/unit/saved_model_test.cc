// What is read of a SavedModel: which graph, which names, which resources.

#include "core/graph/saved_model.h"

#include "absl/strings/str_cat.h"
#include "core/ops/register_ops.h"
#include "formwork/tf/saved_model.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SavedModelTest : public ::testing::Test {
 protected:
  SavedModelTest() { RegisterOps(ops_); }

  tf::MetaGraphDef& AddGraph(std::vector<std::string> tags) {
    tf::MetaGraphDef& graph = *message_.add_meta_graphs();
    for (std::string& tag : tags) graph.mutable_meta_info_def()->add_tags(std::move(tag));
    return graph;
  }
  absl::StatusOr<SavedModel> Parse(std::vector<std::string> tags = {}) {
    return ParseSavedModel(message_.SerializeAsString(), tags, "model@1", ops_);
  }

  OpRegistry ops_;
  tf::SavedModel message_;
};

void SetFloat(tf::TensorInfo& info, const std::string& name, std::vector<int64_t> dims) {
  info.set_name(name);
  info.set_dtype(tf::DT_FLOAT);
  for (const int64_t dim : dims) info.mutable_tensor_shape()->add_dim()->set_size(dim);
}

std::vector<std::string> TextsOf(const std::vector<SavedModel::Argument>& arguments) {
  std::vector<std::string> texts;
  for (const SavedModel::Argument& argument : arguments) {
    texts.push_back(absl::StrCat(argument.name, " ", argument.tensor.name, " ",
                                 DTypeName(argument.tensor.dtype),
                                 argument.tensor.shape.ToString()));
  }
  return texts;
}

TEST_F(SavedModelTest, TagsSayWhichGraph) {
  EXPECT_THAT(Parse(), StatusIs(StatusCode::kNotFound, HasSubstr("it has none")));
  AddGraph({"train"}).mutable_saver_def()->set_restore_op_name("a");
  ASSERT_OK_AND_ASSIGN(SavedModel only, Parse());
  EXPECT_EQ(only.restore, "a");
  AddGraph({"serve"}).mutable_saver_def()->set_restore_op_name("b:0");
  AddGraph({"serve", "gpu"}).mutable_saver_def()->set_restore_op_name("^c");
  ASSERT_OK_AND_ASSIGN(SavedModel served, Parse());
  EXPECT_EQ(served.restore, "b");
  ASSERT_OK_AND_ASSIGN(SavedModel asked, Parse({"gpu", "serve"}));
  EXPECT_EQ(asked.restore, "c");
  EXPECT_THAT(Parse({"gpu"}), StatusIs(StatusCode::kNotFound,
                                       AllOf(HasSubstr("tags 'gpu'"),
                                             HasSubstr("it has 'train', 'serve', 'gpu,serve'"))));
}

TEST_F(SavedModelTest, ArgumentsAreInTheOrderOfTheirNames) {
  tf::MetaGraphDef& graph = AddGraph({"serve"});
  tf::SignatureDef& signature = (*graph.mutable_signature_def())["serving_default"];
  auto& inputs = *signature.mutable_inputs();
  SetFloat(inputs["y"], "y:0", {});
  SetFloat(inputs["rB"], "rB:0", {2});
  inputs["y"].mutable_tensor_shape()->set_unknown_rank(true);
  tf::TensorInfo& sparse = inputs["s"];
  SetFloat(sparse, "", {-1, 4});
  sparse.mutable_coo_sparse()->set_values_tensor_name("v:0");
  sparse.mutable_coo_sparse()->set_indices_tensor_name("i:0");
  sparse.mutable_coo_sparse()->set_dense_shape_tensor_name("d:0");
  tf::TensorInfo& ragged = inputs["r"];
  SetFloat(*ragged.mutable_composite_tensor()->add_components(), "flat:0", {-1});
  SetFloat(*ragged.mutable_composite_tensor()->add_components(), "splits:1", {3});
  SetFloat((*signature.mutable_outputs())["o"], "Identity:0", {1});
  ASSERT_OK_AND_ASSIGN(const SavedModel model, Parse());
  ASSERT_EQ(model.signatures.size(), 1);
  EXPECT_EQ(model.signatures[0].name, "serving_default");
  EXPECT_THAT(
      TextsOf(model.signatures[0].inputs),
      ElementsAre("rB rB:0 float32[2]", "r_component_0 flat:0 float32[?]",
                  "r_component_1 splits:1 float32[3]", "s_dense_shape d:0 int64[2]",
                  "s_indices i:0 int64[?,2]", "s_values v:0 float32[?]", "y y:0 float32<unknown>"));
  EXPECT_THAT(TextsOf(model.signatures[0].outputs), ElementsAre("o Identity:0 float32[1]"));

  inputs["y"].set_dtype(tf::DataType(77));
  EXPECT_THAT(Parse(), StatusIs(StatusCode::kInvalidArgument,
                                HasSubstr("signature 'serving_default': 'y': it has an unknown "
                                          "dtype: 77")));
  SetFloat(inputs["y"], "y:0", {-2});
  inputs["y"].mutable_tensor_shape()->set_unknown_rank(false);
  EXPECT_THAT(Parse(), StatusIs(StatusCode::kInvalidArgument, HasSubstr("'y'")));
}

TEST_F(SavedModelTest, WhatIsRunBeforeTheFirstCall) {
  tf::MetaGraphDef& graph = AddGraph({"serve"});
  const auto assets = [this] {
    std::vector<std::string> found;
    const absl::StatusOr<SavedModel> model = Parse();
    EXPECT_OK(model.status());
    for (const SavedModel::Asset& asset : model->assets) {
      found.push_back(absl::StrCat(asset.tensor, "=", asset.file));
    }
    return found;
  };
  const auto initialize = [this] { return Parse()->initialize; };
  EXPECT_EQ(initialize(), "");
  auto& collections = *graph.mutable_collection_def();
  collections["legacy_init_op"].mutable_node_list()->add_value("legacy");
  EXPECT_EQ(initialize(), "legacy");
  collections["saved_model_main_op"].mutable_node_list()->add_value("main");
  EXPECT_EQ(initialize(), "main");
  tf::SignatureDef& signature = (*graph.mutable_signature_def())["__saved_model_init_op"];
  (*signature.mutable_outputs())["__saved_model_init_op"].set_name("init:0");
  EXPECT_EQ(initialize(), "init");
  EXPECT_TRUE(Parse()->signatures.empty());

  tf::AssetFileDef asset;
  asset.mutable_tensor_info()->set_name("words:0");
  asset.set_filename("words.txt");
  auto& list = *collections["saved_model_assets"].mutable_any_list();
  list.add_value()->set_value(asset.SerializeAsString());
  EXPECT_THAT(assets(), ElementsAre("words:0=words.txt"));
  *graph.add_asset_file_def() = asset;
  graph.mutable_asset_file_def(0)->set_filename("newer.txt");
  EXPECT_THAT(assets(), ElementsAre("words:0=newer.txt"));
}

TEST_F(SavedModelTest, EachNamedResourceIsInTheContainer) {
  tf::GraphDef& graph = *AddGraph({"serve"}).mutable_graph_def();
  const auto add = [](tf::NodeDef* node, const char* op, const char* container) {
    node->set_op(op);
    if (container != nullptr) (*node->mutable_attr())["container"].set_s(container);
  };
  add(graph.add_node(), "VarHandleOp", nullptr);  // Attrs at their defaults are left out.
  add(graph.add_node(), "HashTableV2", "own");
  add(graph.add_node(), "VariableV2", nullptr);
  add(graph.add_node(), "MatMul", nullptr);
  add(graph.add_node(), "Stage", "");  // The import makes another op of it.
  add(graph.mutable_library()->add_function()->add_node_def(), "IteratorV2", nullptr);
  ASSERT_OK_AND_ASSIGN(const SavedModel model, Parse());
  tf::GraphDef read;
  ASSERT_TRUE(read.ParseFromString(model.graph_def));
  std::vector<std::string> containers;
  const auto note = [&containers](const tf::NodeDef& node) {
    const auto attr = node.attr().find("container");
    containers.push_back(attr == node.attr().end() ? "none" : attr->second.s());
  };
  for (const tf::NodeDef& node : read.node()) note(node);
  note(read.library().function(0).node_def(0));
  EXPECT_THAT(containers,
              ElementsAre("model@1", "model@1/own", "model@1", "none", "model@1", "model@1"));
}

TEST_F(SavedModelTest, BytesThatAreNoSavedModel) {
  for (const std::string bytes : {"x", "\x12\x05\x01", "\x12\xff\xff\xff\xff\x07"}) {
    EXPECT_THAT(ParseSavedModel(bytes, {}, "c", ops_),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("not a SavedModel")));
  }
}

}  // namespace
}  // namespace formwork::testing
