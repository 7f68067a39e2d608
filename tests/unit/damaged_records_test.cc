// Data directories with records that no engine has written, below the database's checksums: an
// engine does not start from them, and names what is wrong.

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "core/engine.h"
#include "core/storage/snapshot_store.h"
#include "formwork/state/snapshot.pb.h"
#include "rocksdb/db.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

class DamagedRecordsTest : public EngineTest {
 protected:
  void SetUp() override {
    Start(Options());
    NewVariable("v", 1);
    ASSERT_OK(Register("f", R"(
      x = Placeholder dtype=float
      t = MutableHashTableV2 shared_name="t" key_dtype=string value_dtype=float
      k = Const string[] "key"
      i = LookupTableInsertV2(t, k, x) Tin=string Tout=float)",
                       {Spec("x:0")}, {}, {}, {"i"}));
    absl::Notification taken;
    engine_->TakeSnapshot([&](const absl::StatusOr<SnapshotInfo>& made) {
      EXPECT_OK(made);
      taken.Notify();
    });
    taken.WaitForNotification();
    EXPECT_OK(Assign({{{0, "v"}, Tensor::Scalar(2.0f)}}).status);
    engine_.reset();
  }
  void TearDown() override { engine_.reset(); }
  EngineOptions Options() const {
    EngineOptions options;
    options.data_dir = folder_.path();
    options.durability = Durability::kSync;
    return options;
  }
  // Of the first record whose key begins so.
  template <typename Message>
  void Edit(const std::string& prefix, const std::function<void(Message&)>& edit) {
    EditText(prefix, [&](std::string& text) {
      Message message;
      ASSERT_TRUE(message.ParseFromString(text));
      edit(message);
      text = message.SerializeAsString();
    });
  }
  void EditText(const std::string& prefix, const std::function<void(std::string&)>& edit) {
    rocksdb::DB* opened = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open({}, folder_.path(), &opened).ok());
    const std::unique_ptr<rocksdb::DB> db(opened);
    std::string key, value;
    {
      const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator({}));
      at->Seek(prefix);
      ASSERT_TRUE(at->Valid() && at->key().starts_with(prefix)) << prefix;
      key = at->key().ToString();
      value = at->value().ToString();
    }
    edit(value);
    ASSERT_TRUE(db->Put({}, key, value).ok());
  }
  void ExpectDataLoss(const std::string& text) {
    EXPECT_THAT(Engine::Create(Options()).status(),
                StatusIs(StatusCode::kDataLoss, HasSubstr(text)));
  }

  const TempFolder folder_;
};

TEST_F(DamagedRecordsTest, ATableOfOneType) {
  Edit<state::Snapshot>("snapshot", [](state::Snapshot& snapshot) {
    for (state::Resource& resource : *snapshot.mutable_resources()) {
      if (resource.parts_size() == 2) resource.mutable_parts()->RemoveLast();
    }
  });
  ExpectDataLoss("'t' is of no type that there is");
}

TEST_F(DamagedRecordsTest, AVariableOfADTypeThatIsNone) {
  Edit<state::Snapshot>("snapshot", [](state::Snapshot& snapshot) {
    for (state::Resource& resource : *snapshot.mutable_resources()) {
      resource.mutable_parts(0)->set_dtype(static_cast<tf::DataType>(99));
    }
  });
  ExpectDataLoss("'t' is of no dtype and shape that there are");
}

TEST_F(DamagedRecordsTest, AVariableOfAnotherDTypeThanItsValue) {
  Edit<state::StoredValue>("hR", [](state::StoredValue& value) {
    value.mutable_logged()->mutable_resource()->mutable_parts(0)->set_dtype(tf::DT_INT64);
  });
  ExpectDataLoss("variable 'v' has a value that is none");
}

TEST_F(DamagedRecordsTest, ALoggedValueOfAnotherVariable) {
  Edit<state::StoredValue>("hR", [](state::StoredValue& value) {
    state::Resource* resource = value.mutable_logged()->mutable_resource();
    resource->set_id(resource->id() + 1);
  });
  ExpectDataLoss("says that it is of another");
}

TEST_F(DamagedRecordsTest, ARegistrationThatIsNoText) {
  Edit<state::StoredValue>("hf", [](state::StoredValue& value) {
    value.mutable_parts(0)->set_dtype(tf::DT_FLOAT);
    value.mutable_parts(0)->set_bytes(4);
    value.mutable_parts(1)->set_dtype(tf::DT_FLOAT);
    value.mutable_parts(1)->set_bytes(4);
  });
  ExpectDataLoss("is damaged");
}

TEST_F(DamagedRecordsTest, AValueOfMoreBytesThanThereAre) {
  Edit<state::StoredValue>("hR", [&](state::StoredValue& value) {
    value.mutable_parts(0)->set_bytes(uint64_t{1} << 60);
  });
  ExpectDataLoss("has not the size of its shape");
}

TEST_F(DamagedRecordsTest, WhatNoSnapshotNamesGoesWhateverItsSizeSays) {
  for (const uint64_t bytes : {uint64_t{1} << 60, ~uint64_t{0}}) {
    {
      auto store = *SnapshotStore::Open(folder_.path());
      ASSERT_OK(store->Put({StoredKey::Of::kResource, 1, 1}, {Tensor::Scalar(1.0f)}));
      ASSERT_OK(store->Commit(nullptr, nullptr));
    }
    const std::string first("hr\0\0\0\0\0\0\0\1", 10);
    Edit<state::StoredValue>(first, [&](state::StoredValue& value) {
      value.mutable_parts(0)->set_bytes(bytes);
      *value.add_parts() = value.parts(0);
    });
    Start(Options());
    EXPECT_EQ(ValueOf("v"), 2);
    engine_.reset();
  }
}

TEST_F(DamagedRecordsTest, ATextOfMoreBytesThanThereAre) {
  EditText("pf", [](std::string& piece) {
    const uint64_t size = uint64_t{1} << 60;
    ASSERT_GE(piece.size(), sizeof(size));
    std::memcpy(piece.data(), &size, sizeof(size));
  });
  ExpectDataLoss("has not the size of its strings");
}

}  // namespace
}  // namespace formwork::testing
