#pragma once

// Messages' bytes as tests of codecs need them.

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "grpcpp/support/byte_buffer.h"

namespace formwork::server {

/// `bytes` as gRPC might receive them: cut into slices of at most `piece` bytes.
inline grpc::ByteBuffer Cut(const std::string& bytes, size_t piece) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    slices.emplace_back(bytes.substr(at, piece));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

inline std::string Flatten(const grpc::ByteBuffer& message) {
  grpc::Slice slice;
  EXPECT_TRUE(message.DumpToSingleSlice(&slice).ok());
  return std::string(slice.begin(), slice.end());
}

/// `bytes`, which are not empty, with one to three of them changed, added or left out.
inline std::string Edited(std::string bytes, std::mt19937& random) {
  const int changes = 1 + static_cast<int>(random() % 3);
  for (int i = 0; i < changes; ++i) {
    const size_t at = random() % bytes.size();
    switch (random() % 4) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes.insert(at, 1, static_cast<char>(random()));
        break;
      case 2:
        if (bytes.size() > 1) bytes.erase(at, 1);
        break;
      default:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
    }
  }
  return bytes;
}

}  // namespace formwork::server
