#include "core/graph/fingerprint.h"

#include <openssl/evp.h>

#include <algorithm>
#include <map>
#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/hash_map.h"
#include "core/base/parallel.h"
#include "core/base/stop_flag.h"
#include "core/graph/decode_variant.h"

namespace formwork {
namespace {

class Digest {
 public:
  Digest() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
  }
  // Each part goes in with its length, so that parts cannot run into each other.
  void Add(absl::string_view part) {
    Add(static_cast<int64_t>(part.size()));
    AddBytes(part);
  }
  void AddBytes(absl::string_view bytes) {
    constexpr int64_t kBlockBytes = int64_t{1} << 20;
    ForBlocks(static_cast<int64_t>(bytes.size()), kBlockBytes, [&](int64_t begin, int64_t end) {
      EVP_DigestUpdate(context_.get(), bytes.data() + begin, static_cast<size_t>(end - begin));
    });
  }
  void Add(int64_t number) { EVP_DigestUpdate(context_.get(), &number, sizeof(number)); }
  std::string Hex() {
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    EVP_DigestFinal_ex(context_.get(), bytes, &size);
    return absl::BytesToHexString({reinterpret_cast<const char*>(bytes), size});
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

class Fingerprinter {
 public:
  // Each function when all that it calls are known: nests may be deep.
  explicit Fingerprinter(const ImportedGraph& imported) {
    for (const std::string& name : imported.order) {
      functions_[name] = Of(*imported.library.at(name));
    }
  }

  std::string Of(const Graph& graph) {
    Digest digest;
    for (DType dtype : graph.arg_dtypes) digest.Add(static_cast<int64_t>(dtype));
    for (size_t i = 0; i < graph.nodes.size() && !WorkIsCutAt(static_cast<int64_t>(i), kDearItems);
         ++i) {
      AddNode(graph.nodes[i], digest);
    }
    digest.Add(static_cast<int64_t>(graph.results.size()));
    for (const Edge& edge : graph.results) AddEdge(edge, digest);
    return digest.Hex();
  }

 private:
  static void AddEdge(const Edge& edge, Digest& digest) {
    digest.Add(edge.node);
    digest.Add(edge.index);
  }

  void AddTensor(const Tensor& tensor, Digest& digest) {
    digest.Add(static_cast<int64_t>(tensor.dtype()));
    digest.Add(tensor.shape().ToString());
    if (tensor.dtype() == DType::kString) {
      for (const std::string& text : tensor.span<std::string>()) digest.Add(text);
    } else if (IsPlainData(tensor.dtype())) {
      digest.Add(absl::string_view(static_cast<const char*>(tensor.raw()), tensor.bytes()));
    } else if (tensor.dtype() == DType::kVariant) {
      for (const Variant& variant : tensor.span<Variant>()) {
        digest.Add(variant == nullptr ? "" : variant->type_name());
        for (const Tensor* part : TensorsInside(variant)) AddTensor(*part, digest);
      }
    }
  }

  void AddNode(const Node& node, Digest& digest) {
    digest.Add(static_cast<int64_t>(node.kind));
    digest.Add(node.arg);
    if (node.distinct) digest.Add("distinct");
    if (node.op != nullptr) digest.Add(node.op->name);
    if (node.wants_host) digest.Add("on the host");
    for (const Edge& edge : node.inputs) AddEdge(edge, digest);
    if (node.kind == NodeKind::kConstant) AddTensor(node.constant, digest);
    if (node.attrs == nullptr) return;
    // A resource that is named by its node.
    if (node.op != nullptr && node.op->handle_of != nullptr) digest.Add(node.name);
    std::map<absl::string_view, const AttrValue*> sorted;
    for (const auto& [name, value] : node.attrs->entries()) {
      if (!name.empty() && name[0] != '_') sorted[name] = &value;
    }
    for (const auto& [name, value] : sorted) {
      digest.Add(name);
      AddAttr(*value, digest);
    }
  }

  void AddAttr(const AttrValue& value, Digest& digest) {
    digest.Add(static_cast<int64_t>(value.index()));
    auto scalar = [&](const auto& x) {
      using X = std::decay_t<decltype(x)>;
      if constexpr (std::is_same_v<X, FuncAttr>) {
        const auto known = functions_.find(x.name);
        digest.Add(known == functions_.end() ? x.name : known->second);
      } else if constexpr (std::is_same_v<X, Tensor>) {
        AddTensor(x, digest);
      } else if constexpr (std::is_same_v<X, PartialShape>) {
        digest.Add(x.ToString());
      } else if constexpr (std::is_same_v<X, std::string>) {
        digest.Add(x);
      } else if constexpr (std::is_same_v<X, float>) {
        digest.Add(absl::string_view(reinterpret_cast<const char*>(&x), sizeof(x)));
      } else {
        digest.Add(static_cast<int64_t>(x));
      }
    };
    std::visit(
        [&](const auto& x) {
          using X = std::decay_t<decltype(x)>;
          if constexpr (std::is_same_v<X, std::monostate>) {
            return;
          } else if constexpr (std::is_same_v<X, std::string> || !requires { x.begin(); }) {
            scalar(x);
          } else {
            digest.Add(static_cast<int64_t>(x.size()));
            for (const auto& element : x) scalar(element);
          }
        },
        value);
  }

  HashMap<std::string, std::string> functions_;  // Their digests, by name.
};

}  // namespace

std::string Sha256Hex(absl::string_view bytes) {
  Digest digest;
  digest.AddBytes(bytes);
  return digest.Hex();
}

std::string Fingerprint(const ImportedGraph& imported) {
  return Fingerprinter(imported).Of(*imported.graph);
}

}  // namespace formwork
